"""One run: from a prompt to its events."""
