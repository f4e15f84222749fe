"""What answers: models on this machine, remote models, and tools."""
