"""Money under its ceilings, and every byte that left, in SQLite."""
