"""What fills the terminal: the conversation, and what lies over it for a while."""
