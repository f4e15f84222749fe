"""What a model file says, and the memory that it needs. Pure."""
