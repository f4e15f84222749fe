"""Which blocks a text holds, and that nothing of their code is lost or cut."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as some

from baton.core.markdown import CodeBlock, blocks, text_and_blocks


@pytest.mark.parametrize("sign", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_code_with_an_odd_line_separator_in_a_text_stays_whole(sign: str) -> None:
    code = f"assert len('a{sign}b') == 3"
    assert blocks(f"```python\n{code}\n```") == [CodeBlock("python", code)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_in_any_file(end: str) -> None:
    text = end.join(["So:", "```python", "a = 1", "b = 2", "```", "Done.", ""])
    assert list(text_and_blocks(text)) == ["So:", CodeBlock("python", "a = 1\nb = 2"), "Done."]


@given(some.lists(some.text(some.characters(exclude_characters="\r\n`~"), max_size=20), min_size=1))
def test_nothing_between_the_fences_is_changed(lines: list[str]) -> None:
    code = "\n".join(lines)
    assert list(text_and_blocks(f"```py\n{code}\n```\n")) == [CodeBlock("py", code)]
