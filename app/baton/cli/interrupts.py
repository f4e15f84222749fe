"""Ctrl+C from the first moment on, so that nothing on the way to an answer can swallow the wish.

Python raises KeyboardInterrupt wherever the main thread happens to be: where that is a callback of
the import system or a finaliser, it is printed and forgotten. Here it is remembered as well.
"""

import signal
import sys
from types import FrameType

_wished = False


def watch() -> None:
    """Take SIGINT over from Python, unless whoever started this process chose to ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _tell_of_unraisable


def hand_over() -> None:
    """Leave SIGINT to an event loop. Raises KeyboardInterrupt if the person wished to leave."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    check()


def check() -> None:
    """Raise KeyboardInterrupt if the person wished to leave, even if one was swallowed since."""
    if _wished:
        raise KeyboardInterrupt


def wished() -> bool:
    """Tell whether the person wished to leave."""
    return _wished


def _interrupt(_: int, __: FrameType | None) -> None:
    global _wished
    _wished = True
    raise KeyboardInterrupt


def _tell_of_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
