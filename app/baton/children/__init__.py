"""What runs in child processes. Imports nothing of baton but `domain`."""
