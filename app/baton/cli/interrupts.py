"""Ctrl+C from the first moment on, so that nothing on the way to an answer can swallow the wish.

Python raises KeyboardInterrupt wherever the main thread happens to be: where that is a callback of
the import system or a finaliser, it is printed and forgotten. Here it is remembered as well.
"""

import signal
import sys
from types import FrameType

_interrupted = False


def install_handler() -> None:
    """Take SIGINT over from Python, unless the parent process chose to ignore it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        sys.unraisablehook = _report_unraisable


def restore_default_handler() -> None:
    """Leave SIGINT to an event loop. Raises KeyboardInterrupt if the user wished to leave."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    raise_if_interrupted()


def raise_if_interrupted() -> None:
    """Raise KeyboardInterrupt if the user wished to leave, even if one was swallowed since."""
    if _interrupted:
        raise KeyboardInterrupt


def was_interrupted() -> bool:
    """Whether the user wished to leave."""
    return _interrupted


def _interrupt(_: int, __: FrameType | None) -> None:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def _report_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
