"""The conversation: its screen, and what can be done on it."""
