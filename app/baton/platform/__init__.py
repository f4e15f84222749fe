"""What this machine and this terminal are."""

from baton.adapters.hardware.computer import machine
from baton.adapters.hardware.terminal import Terminal, terminal

__all__ = ["Terminal", "machine", "terminal"]
