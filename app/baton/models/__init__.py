"""Models: which there are, which suit a machine, and what they do."""
