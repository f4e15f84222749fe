"""What runs in child processes, and the pipes to them; knows `domain` and `secrets` only."""
