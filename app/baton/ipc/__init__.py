"""Child processes and the pipes to them."""
