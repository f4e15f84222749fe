"""What runs in child processes, and the pipes to them; imports nothing of Baton but `domain` and `secrets`."""
