"""Where the engine's Protocols meet SQLite, child processes and the file system."""
