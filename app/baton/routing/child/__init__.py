"""The learned router: numbers only. Knows `core`, and runs in the scorer child and in scripts."""

from __future__ import annotations


class RouterFileError(Exception):
    """A file of the router is missing, broken, or of another format."""
