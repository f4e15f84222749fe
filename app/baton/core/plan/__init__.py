"""Plans: their steps, who does them, how they are drawn and checked."""
