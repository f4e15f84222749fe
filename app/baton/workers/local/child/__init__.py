"""The runner: the process that holds one model."""
