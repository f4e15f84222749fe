"""Patterns that are compiled at their first use."""

from __future__ import annotations

import re

import pytest

from baton.core import lazy_loading
from baton.core.lazy_loading import compile_patterns, lazy_pattern


def test_it_does_what_the_compiled_pattern_does() -> None:
    late, compiled = (make(r"\b(b)\w+", re.IGNORECASE) for make in (lazy_pattern, re.compile))
    text = "A bee, a Bear"
    assert late.findall(text) == compiled.findall(text) == ["b", "B"]
    assert late.sub("x", text) == compiled.sub("x", text)
    assert (late.pattern, late.flags) == (compiled.pattern, compiled.flags)


def test_it_is_compiled_only_once_it_is_used() -> None:
    wrong = lazy_pattern("(")
    with pytest.raises(re.error):
        wrong.search("")


def test_all_can_be_compiled_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lazy_loading, "_patterns", [])
    asked = iter(["a+", "b+"])
    for _ in range(2):
        lazy_pattern(lambda: next(asked))
    compile_patterns()
    assert not list(asked)
