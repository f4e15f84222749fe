"""The chat screen, and a controller for each thing that can be done on it."""
