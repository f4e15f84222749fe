"""Figures, formulas and paths keep every sign on the screen; real emphasis is still drawn."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from textual.selection import SELECT_ALL

from baton.core.messages import Chunk, Request, Text
from baton.tui.answer_markdown import Block, parse_blocks
from baton.tui.widgets.answer import AnswerView, block_painter
from support.app_session import open_app

LITERAL = [
    "2*3*4",
    "2 * 3 * 4",
    "2**3**4",
    "x\u00b2*y*z",
    "$5*3 = $15*1",
    "$10-$20, $3*2*$4",
    "2*(3+4)*5*(6+7)",
    "(a+b)*c*(d)",
    "|x|*y*(z)",
    "(2*3)*(4*5)*(6)",
    "$x$*$y$*$z$",
    "5 *3* 4",
    "5%*2*(3)",
    "a_b_c and 1_000_000",
    "obj.__dict__, __init__.py",
    'if __name__ == "__main__"',
    "~5~ and a~~b~~c",
    "\u957f*\u5bbd*\u9ad8",
    "*args and a*b",
    "f(**kwargs) is a**b",
    '"*" and "*", (*) or (*)',
    "*.py,*.txt",
    "src/**/*.py and **/*.md",
    r"C:\*.txt",
    r"src\lib\*.c and \\server\share",
    r"r\d+\.\d*",
    r"\(\frac{a}{b}\)",
    r"\[ x^2 \]",
    r"\( a_1 * b_1 * c \) and \( a_2 \)",
    r"$\{x\}\,y$ and $x_{i}$ and $_{i}$",
    "\\[\nx^2\n+ y_1\n- z_1\n= 3 \\\\\n\\]",
    "$$\n- x\n=\n+ y\n$$",
    "\\begin{align}\na &= b \\\\\n- c\n\\end{align}",
]
EMPHASIS = {
    "**bold** and __bold__": "bold and bold",
    "*it* and _it_": "it and it",
    "***both***, *very*, **much**.": "both, very, much.",
    "**a *b* c**": "a b c",
    "~~gone~~": "gone",
    "**f(x)**, *g(x)* and **h(x)**": "f(x), g(x) and h(x)",
    "**Note**s": "Notes",
    '(*a*) "*b*" **c**/**d**': '(a) "b" c/d',
    "\u8fd9\u662f**\u91cd\u8981**\u7684": "\u8fd9\u662f\u91cd\u8981\u7684",
    "**\uc11c\uc6b8 \ud0c0\uc6cc**\ub294": "\uc11c\uc6b8 \ud0c0\uc6cc\ub294",
    "**2*3*4** and **$5**": "2*3*4 and $5",
    "costs $5 and **not** $6": "costs $5 and not $6",
    r"5 \* 3 \# 1\. \_a\_ snake\_case": "5 * 3 # 1. _a_ snake_case",
    "`a*b*c`": "a*b*c",
}
TEXTS = {text: text for text in LITERAL} | EMPHASIS


def drawn(text: str) -> str:
    painter = block_painter("dark")
    lines = [line.text.strip() for block in parse_blocks(text) for line in painter.draw(block, 200)]
    return "\n".join(lines)


@pytest.mark.parametrize("text", TEXTS)
def test_signs_stay_and_emphasis_is_drawn(text: str) -> None:
    assert drawn(text) == TEXTS[text]
    assert drawn(f"- {text}".replace("\n", "\n  ")).removeprefix("\u2022 ") == TEXTS[text]


async def test_an_answer_that_streams_looks_like_the_whole_one(tmp_path: Path) -> None:
    whole = "\n\n".join(TEXTS)

    def answer(request: Request) -> Iterable[Chunk]:
        yield from map(Text, whole)

    async with open_app(tmp_path, answer, size=(120, 24)) as session:
        await session.ask("Write")
        view = session.chat.query(AnswerView).first()
        selected = view.get_selection(SELECT_ALL)
        assert selected is not None
        assert [line.strip() for line in selected[0].split("\n") if line] == [
            line.strip() for text in TEXTS.values() for line in text.split("\n")
        ]


@given(st.text("ab1*_$\\(){}. \n+-", max_size=60))
def test_no_text_breaks_the_parser_and_no_letter_is_lost(text: str) -> None:
    def letters(blocks: list[Block]) -> str:
        tokens = [token for block in blocks for token in block]
        parts = [child for token in tokens for child in token.children or (token,)]
        return "".join(char for part in parts for char in part.content if char in "ab")

    assert letters(parse_blocks(text)) == "".join(char for char in text if char in "ab")
