"""This machine: settings, keys, files, hardware, SQLite, signals."""
