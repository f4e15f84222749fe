"""What this machine and this terminal are."""

from baton.platform.computer import machine
from baton.platform.terminal import Terminal, terminal

__all__ = ["Terminal", "machine", "terminal"]
