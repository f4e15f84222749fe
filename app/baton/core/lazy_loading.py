"""What is loaded at its first use: the exports of a package, and compiled regular expressions.

A child process is in the package of its slice, and must not load the modules of the front; and
compiling the patterns of the modules that a `baton ask` imports takes 0.1 s of a slow core.
"""

from __future__ import annotations

import re
from importlib import import_module

TYPE_CHECKING = False  # typing's own would import it
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def lazy_exports(package: str, **homes: str) -> Callable[[str], object]:
    """Return a package's `__getattr__`: each module of it by name, with the names that it holds."""
    home_of = {name: module for module, names in homes.items() for name in names.split()}

    def export(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home_of[name]}"), name)

    return export


def lazy_pattern(pattern: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """Return what compiles a pattern as soon as one of its methods is looked up.

    A pattern that is wrong shows only then. One that is a function is called then.
    """
    lazy: Any = _LazyPattern(pattern, flags)
    _patterns.append(lazy)
    return lazy  # type: ignore[no-any-return]


def compile_patterns() -> None:
    """Compile the patterns of all modules that are imported: for a process that will fork."""
    for pattern in _patterns:
        pattern.compile()


class _LazyPattern:
    def __init__(self, pattern: str | Callable[[], str], flags: int) -> None:
        self._source = pattern
        self._flags = flags

    def compile(self) -> re.Pattern[str]:
        """Return the compiled pattern."""
        pattern = self._source if isinstance(self._source, str) else self._source()
        return re.compile(pattern, self._flags)  # which keeps the latest 512

    def __getattr__(self, name: str) -> Any:
        """Compile, and keep the method, so that this is called once for each."""
        vars(self).update({name: getattr(self.compile(), name)})
        return vars(self)[name]


_patterns: list[_LazyPattern] = []
