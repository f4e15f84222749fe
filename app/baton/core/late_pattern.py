"""Regular expressions that are compiled at their first use.

Compiling those of the modules that a `baton ask` imports takes 0.1 s of a slow core, and most of
them are used in few runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast


def late_pattern(pattern: str | Callable[[], str], flags: int = 0) -> re.Pattern[str]:
    """Return what compiles a pattern as soon as one of its methods is looked up.

    A pattern that is wrong shows only then. One that is a function is called then.
    """
    return cast("re.Pattern[str]", _LatePattern(pattern, flags))


class _LatePattern:
    def __init__(self, pattern: str | Callable[[], str], flags: int) -> None:
        self._source = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """Compile, and keep the method, so that this is called once for each."""
        pattern = self._source if isinstance(self._source, str) else self._source()
        compiled = re.compile(pattern, self._flags)
        vars(self).update({name: getattr(compiled, name)})
        return vars(self)[name]
