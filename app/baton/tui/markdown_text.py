"""Markdown as models write it, drawn as lines of styled text.

Rich draws the blocks; here is how they look, and that nothing in them is obeyed: HTML and pictures
are shown as the text that they are, and a link shows where it leads.
"""

from __future__ import annotations

import io
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich import markdown as rich_markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax, SyntaxTheme
from rich.theme import Theme as Styles
from textual.strip import Strip
from textual.theme import Theme

from baton.tui import themes

MAX_HIGHLIGHTED_CHARS = 20_000
"""Longer code is drawn plainly: colouring it would take longer than a frame."""

Block = list[Token]
"""The tokens of one paragraph, list, table or code block."""


class _CodeBlock(rich_markdown.CodeBlock):
    """Code on a quiet background, in the colours of the look."""

    def __init__(self, lexer: str, colours: SyntaxTheme, background: str) -> None:
        super().__init__(lexer, "")
        self._colours = colours
        self._background = background

    @classmethod
    def create(cls, markdown: rich_markdown.Markdown, token: Token) -> _CodeBlock:
        """Make the element for a fence."""
        assert isinstance(markdown, _Markdown)
        words = token.info.split()
        return cls(words[0] if words else "text", *markdown.code)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        lexer = self.lexer_name if len(code) <= MAX_HIGHLIGHTED_CHARS else "text"
        yield Syntax(
            code,
            lexer,
            theme=self._colours,
            background_color=self._background,
            word_wrap=True,
            padding=(0, 1),
        )


class _Heading(rich_markdown.Heading):
    """A heading where the text is, not in the middle."""

    LEVEL_ALIGN = {f"h{level}": "left" for level in range(1, 7)}  # noqa: RUF012 (as in Rich)


class _Markdown(rich_markdown.Markdown):
    """One block, already parsed."""

    elements = {  # noqa: RUF012 (as in Rich)
        **rich_markdown.Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
    }

    def __init__(self, block: Block, code: tuple[SyntaxTheme, str]) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = block
        self.code = code


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return parser.disable("image")


def parse_blocks(text: str) -> list[Block]:
    """Split a Markdown text into its blocks."""
    blocks: list[list[Token]] = []
    for token in _parser().parse(text):
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
    return [token.content for token in tokens if token.type in ("fence", "code_block")]


class BlockPainter:
    """Draws blocks in the colours of one look."""

    def __init__(self, theme: Theme) -> None:
        muted, rule = theme.variables["muted"], theme.variables["rule"]
        self._code = (_code_colours(theme), theme.surface or "default")
        self._console = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system="truecolor",
            theme=Styles(_styles(theme, muted, rule)),
        )

    def draw(self, block: Block, width: int) -> list[Strip]:
        """Draw one block as lines of at most this many columns."""
        options = self._console.options.update(width=max(1, width), height=None)
        lines = self._console.render_lines(
            _Markdown(block, self._code), options, pad=False, new_lines=False
        )
        strips = [Strip(line) for line in lines]
        while strips and not strips[-1].text.strip():
            strips.pop()
        while strips and not strips[0].text.strip():
            strips.pop(0)
        return strips


@cache
def block_painter(look: str) -> BlockPainter:
    """Return the pen for a look."""
    return BlockPainter(next(theme for theme in themes.ALL if theme.name == look))


def _styles(theme: Theme, muted: str, rule: str) -> dict[str, Style]:
    names = {
        "code": Style(color=theme.accent),
        "block_quote": Style(color=muted),
        "item.bullet": Style(color=muted),
        "item.number": Style(color=muted),
        "list": Style(),
        "hr": Style(color=rule),
        "h1": Style(color=theme.primary, bold=True),
        "h2": Style(bold=True),
        "h3": Style(bold=True),
        "h4": Style(bold=True, italic=True),
        "h5": Style(italic=True),
        "h6": Style(italic=True),
        "link": Style(underline=True),
        "link_url": Style(color=muted),
        "table.border": Style(color=rule),
        "table.header": Style(bold=True),
    }
    return {f"markdown.{name}": style for name, style in names.items()}


def _code_colours(theme: Theme) -> ANSISyntaxTheme:
    return ANSISyntaxTheme(
        {
            (): Style(color=theme.foreground),
            ("Comment",): Style(color=theme.variables["muted"], italic=True),
            ("Keyword",): Style(color=theme.primary),
            ("Operator", "Word"): Style(color=theme.primary),
            ("Name", "Function"): Style(bold=True),
            ("Name", "Class"): Style(bold=True),
            ("Name", "Tag"): Style(color=theme.primary),
            ("Literal", "String"): Style(color=theme.success),
            ("Literal", "Number"): Style(color=theme.warning),
        }
    )
