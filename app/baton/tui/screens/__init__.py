"""What fills the terminal: the conversation, and screens above it for a while."""
