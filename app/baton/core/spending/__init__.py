"""What help is worth, and how fast money may be spent."""
