"""The Markdown of answers: blocks of tokens, in which figures, formulas and paths stay whole.

Models write `2*3*4`, `\\(x_1\\)` and `C:\\*.txt` beside real emphasis. By CommonMark alone their
stars and backslashes would vanish from the screen, and the figures with them would be wrong.
"""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

CODE_TOKENS = ("fence", "code_block")

Block = list[Token]
"""The tokens of one paragraph, list, table or code block."""


def parse_blocks(text: str) -> list[Block]:
    """Split a Markdown text into its blocks; a line break of a poem or an address stays one."""
    blocks: list[list[Token]] = []
    for token in _parser().parse(text):
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
        if token.level == 0 and token.nesting >= 0:
            blocks.append([])
        blocks[-1].append(token)
    return blocks


def first_line(block: Block) -> int:
    """Return the number of the source line that a block begins on, counted from 0."""
    return block[0].map[0] if block[0].map else 0


def code_blocks(text: str) -> list[str]:
    """Return the code blocks of a Markdown text, from its source."""
    tokens = _parser().parse(text)
    return [token.content for token in tokens if token.type in CODE_TOKENS]


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    parser.inline.ruler.before("escape", "literal", _keep_literal)
    interrupted: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", "formula", _take_formula, interrupted)
    return parser.disable("image")


MAX_FORMULA_CHARS = 4_000
MAX_WORD_CHARS = 100
"""How far around a sign is looked at: a hostile text takes no longer than its length."""

_FORMULA = re.compile(r"\\\(|\\\[|\\begin\{|\$\$|\$(?![\s$])")
_CLOSINGS = {"\\(": "\\)", "\\[": "\\]", "\\begin{": "\\end{", "$$": "$$", "$": "$"}

_PATH = re.compile(r"^\W?[A-Za-z]:\\|\\[A-Za-z0-9]|\\\*\.")
"""A word in which backslashes escape nothing: a Windows path, a command of LaTeX, a pattern."""

_VALUE_ENDS = ")]}%|$\u00b0\u20ac\u00a3\u00a5"
_MIRRORED = dict(zip("([{<\u201c\u201e\u00ab\"'", ")]}>\u201d\u201c\u00bb\"'", strict=True))
_WORD_OPENED = re.compile(r"(?:^|[^\w*~)\]}])(\*+|~~)[^\s*~]+$")
_DUNDER = re.compile(r"__[a-z0-9_]*[a-z0-9]__")
_DUNDERS = {*dir(type), *dir(list), *dir(int), "__main__", "__all__", "__file__", "__future__"}


def _keep_literal(state: StateInline, silent: bool) -> bool:
    """Take what isn't Markdown here: a formula, a backslash of a path, a sign between figures."""
    sign = state.src[state.pos]
    if sign not in "\\$*_~":
        return False
    literal = _formula_at(state.src, state.pos)
    if not literal and sign == "\\":
        literal = _kept_backslash(state.src, state.pos)
    elif not literal and sign != "$":
        literal = _literal_marks(state.src, state.pos)
    if not literal:
        return False
    state.pos += len(literal)
    for number, line in enumerate([] if silent else literal.split("\n")):
        if number:
            state.push("hardbreak", "br", 0)
        state.append_pending(line)
    return True


def _formula_at(text: str, at: int) -> str:
    """Return the formula that begins here with its delimiters, "" if none does."""
    opening = _FORMULA.match(text, at)
    if opening is None:
        return ""
    closing = _CLOSINGS[opening[0]]
    end = text.find(closing, opening.end(), at + MAX_FORMULA_CHARS)
    if end < 0:
        return ""
    formula = text[at : end + len(closing)]
    if closing != "$":
        return formula
    # Prices aren't one: only what LaTeX has signs for, on one line.
    is_price = not re.search(r"[\\^_]", formula) or re.search(r"\n|`|\s\$$", formula)
    return "" if is_price or text[end + 1 : end + 2].isalnum() else formula


def _kept_backslash(text: str, at: int) -> str:
    """Return a backslash, and what stands behind it, where it escapes nothing; else ""."""
    following = text[at + 1 : at + 2]
    word = re.split(r"\s", text[max(0, at - MAX_WORD_CHARS) : at])[-1]
    word += re.split(r"\s", text[at : at + MAX_WORD_CHARS])[0]
    if not following.strip():
        return "\\" if _PATH.search(word) else ""
    return f"\\{following}" if following in "()[]{}\\" or _PATH.search(word) else ""


def _literal_marks(text: str, at: int) -> str:
    """Return the marks that begin here where they can't be meant as emphasis; else ""."""
    sign, end = text[at], at
    while text[end : end + 1] == sign:
        end += 1
    marks, before, after = text[at:end], text[at - 1 : at] if at else "", text[end : end + 1]
    if (name := _DUNDER.match(text, at)) and (
        name[0] in _DUNDERS or before == "." or re.match(r"\(|\.\w", text[name.end() :][:2])
    ):
        return name[0]
    if before.isalnum() and after.isalnum():
        return "" if _is_within_word(text, at, marks, after) else marks
    # f(x)*y*(z), 5 *3* 4
    is_product = before in _VALUE_ENDS and bool(re.match(r"[\w(\[{$]", after))
    is_product |= bool(re.match(r"\d [*]\d[\d.,]*[*]\s*\d", text[max(0, at - 2) : at + 20]))
    is_quoted = _MIRRORED.get(before) == after  # "*" and "*"
    is_pattern = after in "./" and not (before.isalnum() or before in ".!?)\u201d")  # *.py, **/
    is_pattern &= bool(re.match(r"\.\w|/", text[end : end + 2]))
    return marks if (before and (is_product or is_quoted)) or is_pattern else ""


def _is_within_word(text: str, at: int, marks: str, after: str) -> bool:
    """Whether marks between two letters may open or close emphasis.

    They do in scripts without spaces, and at the end of a part of a word: `**Note**s`.
    """
    if marks[0] == "_":
        return True  # CommonMark itself leaves those alone
    before = text[at - 1]
    if not (before.isalpha() and after.isalpha()):
        return any(char.isalpha() and char >= _SPACELESS for char in (before, after))
    if len(marks) > 1 and max(before, after) >= _SPACELESS:
        return True
    opened = _WORD_OPENED.search(text, max(0, at - MAX_WORD_CHARS), at)
    is_closing = opened is not None and opened[1] == marks
    return is_closing and (len(marks) > 1 or max(before, after) >= _SPACELESS)


_SPACELESS = "\u0e00"
"""From Thai on, many scripts write words without spaces, or particles right behind a word."""


def _take_formula(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Take a formula of several lines, in which `+` and `-` begin no list. It ends at a gap."""
    first = _line(state, start)
    opening = next((sign for sign in ("\\[", "$$", "\\begin{") if first.startswith(sign)), "")
    if not opening or state.is_code_block(start):
        return False
    closing = _CLOSINGS[opening]
    if closing in first[len(opening) :]:
        return False
    if silent:
        return True
    after = start + 1
    while after < end and _line(state, after) and state.sCount[after] >= state.blkIndent:
        after += 1
        if closing in _line(state, after - 1):
            break
    state.line = after
    state.push("paragraph_open", "p", 1).map = [start, after]
    inline = state.push("inline", "", 0)
    inline.content = "\n".join(_line(state, number) for number in range(start, after))
    inline.map, inline.children = [start, after], []
    state.push("paragraph_close", "p", -1)
    return True


def _line(state: StateBlock, number: int) -> str:
    """Return a line without the spaces around it and the marks of what it stands in."""
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]].strip()
