"""The doctor's child processes."""
