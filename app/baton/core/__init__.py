"""Prompt in, events out: the shared vocabulary, and the way of one prompt."""
