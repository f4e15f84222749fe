"""An answer's text: one widget that draws Markdown itself, however long the answer is.

With a widget for each paragraph and table cell, as in Textual's own Markdown, every keystroke would
wait for the layout of hundreds of widgets while an answer streams in.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache

from markdown_it.token import Token
from rich import box, markdown as rich_markdown
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.syntax import ANSISyntaxTheme, Syntax, SyntaxTheme
from rich.table import Table
from rich.theme import Theme as Styles
from textual.content import Content
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.theme import Theme
from textual.widget import Widget

from baton.tui import themes
from baton.tui.answer_markdown import CODE_TOKENS, Block, first_line, parse_blocks


class AnswerView(Widget):
    """Shows a Markdown text. While it grows, only its end is parsed and drawn again."""

    def __init__(self, text: str = "") -> None:
        super().__init__(markup=False)
        self._text = text
        self._whole: list[Block] = []  # nothing that is appended changes these any more
        self._tail = ""  # the source of the one or two blocks after them
        self._lines: list[Strip] = []  # all blocks, drawn `_width` columns wide
        self._whole_lines = 0  # how many lines those are that won't change
        self._width = 0
        self._base = Style()
        self._take(text)

    def show(self, text: str) -> None:
        """Show this text, of which the beginning may be there already."""
        if self._text and text.startswith(self._text):
            self.append(text[len(self._text) :])
        else:
            self.update(text)

    def show_author(self, author: str) -> None:
        """Show over the text which remote worker wrote it, and mark it ("": it is not marked)."""
        self.border_title = Content(author)
        self.set_class(bool(author), "-signed")

    def append(self, text: str) -> None:
        """Add to the text."""
        if not text:
            return
        self._text += text
        height = len(self._lines)
        self._take(self._tail + text)
        self.refresh(layout=len(self._lines) != height)

    def update(self, text: str) -> None:
        """Replace the text."""
        if text == self._text:
            return
        self._text = text
        self._whole, self._width = [], 0
        self._take(text)
        self.refresh(layout=True)

    def _take(self, text: str) -> None:
        blocks = parse_blocks(text)
        whole = max(0, len(blocks) - 1)
        if whole and first_line(blocks[whole]) == text.count("\n"):
            whole -= 1  # a line that is still written may belong to the block before: "#", "#tag"
        if whole:
            text = "\n".join(text.split("\n")[first_line(blocks[whole]) :])
        self._tail = text
        self._whole += blocks[:whole]
        if self._width:
            del self._lines[self._whole_lines :]
            self._draw(blocks[:whole])
            self._whole_lines = len(self._lines)
            self._draw(blocks[whole:])

    def _draw(self, blocks: list[Block]) -> None:
        painter = block_painter(self.app.theme)
        for block in blocks:
            if self._lines:
                self._lines.append(Strip.blank(0))
            self._lines += painter.draw(block, self._width)

    def _fit(self, width: int) -> None:
        """Draw everything again if the width has changed."""
        if width != self._width and width > 0:
            self._width = width
            self._lines, self._whole_lines = [], 0
            self._draw(self._whole)
            self._whole_lines = len(self._lines)
            self._draw(parse_blocks(self._tail))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines the text takes at this width."""
        self._fit(width)
        return len(self._lines)

    def notify_style_update(self) -> None:
        """Draw everything again in another theme."""
        super().notify_style_update()
        self._width = 0

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the lines in sight."""
        self._fit(self.content_size.width)
        self._base = self.rich_style  # costly, and the same for every line
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return one line of the text."""
        width, base = self.content_size.width, self._base
        if y >= len(self._lines):
            return Strip.blank(width, base)
        line = self._lines[y].apply_style(base).extend_cell_length(width, base)
        if (selection := self.text_selection) and (span := selection.get_span(y)) is not None:
            start, end = span
            end = width if end == -1 else end
            marked = line.crop(start, end).apply_style(
                self.screen.get_component_rich_style("screen--selection")
            )
            line = Strip.join([line.crop(0, start), marked, line.crop(end)])
        return line.crop(0, width).apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, without line breaks of wrapping and what pads code."""
        pieces: list[str] = []
        for y, (line, (joint, padding)) in enumerate(zip(self._lines, self._joints(), strict=True)):
            if (span := selection.get_span(y)) is None:
                continue
            start, end = span
            piece = line.crop(max(start, padding), None if end == -1 else end).text.rstrip()
            is_break = joint == "\n"
            pieces += [joint] if pieces else []
            pieces.append(piece if is_break else piece.lstrip())
        return "".join(pieces), "\n"

    def _joints(self) -> list[tuple[str, int]]:
        """Return for each line what stands before it in the text, and how many columns pad it."""
        joints: list[tuple[str, int]] = []
        painter = block_painter(self.app.theme)
        for block in (*self._whole, *parse_blocks(self._tail)):
            if joints:
                joints.append(("\n", 0))
            drawn = [line.text for line in painter.draw(block, self._width)]
            padding = 1 if block[0].type in CODE_TOKENS else 0
            joints += [(joint, padding) for joint in line_joints(drawn, painter.unwrap(block))]
        return joints


MAX_HIGHLIGHTED_CHARS = 20_000
"""Longer code is drawn plainly: colouring it would take longer than a frame."""

UNWRAPPED_COLUMNS = 100_000
"""How wide a block is drawn to see where its lines end by themselves."""


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


class _Table(rich_markdown.TableElement):
    """A table with rules between its rows; a word that is wider than its column continues below."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            table.box, table.show_lines = box.HORIZONTALS, True
            for column in table.columns:
                column.overflow = "fold"
            yield table


class _Markdown(rich_markdown.Markdown):
    """One block, already parsed."""

    elements = {  # noqa: RUF012 (as in Rich)
        **rich_markdown.Markdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
        "table_open": _Table,
    }

    def __init__(self, block: Block, code: tuple[SyntaxTheme, str]) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = block
        self.code = code


def line_joints(drawn: Sequence[str], lines: Sequence[str]) -> list[str]:
    """Return for each drawn line what stands between it and the one before in the text.

    That is a line break, or what wrapping has put one for: spaces, or nothing within a word. Where
    more is drawn than the text (a table, a quote's edge), each line is taken as one of its own.
    """
    if "".join("".join(drawn).split()) != "".join("".join(lines).split()):
        return ["\n"] * len(drawn)
    before: list[str] = []  # what stands before each visible character
    for line in lines:
        between = "\n"
        for character in line:
            if not character.isspace():
                before.append(between)
                between = ""
            elif between != "\n":
                between += character
    joints: list[str] = []
    at = 0
    for line in drawn:
        length = len("".join(line.split()))
        joints.append(before[at] if length else "\n")
        at += length
    return joints


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

    def unwrap(self, block: Block) -> list[str]:
        """Return the lines of a block as long as they are."""
        if block[0].type in CODE_TOKENS:
            return block[0].content.split("\n")
        return [line.text for line in self.draw(block, UNWRAPPED_COLUMNS)]


@cache
def block_painter(look: str) -> BlockPainter:
    """Return the painter for a look."""
    return BlockPainter(themes.theme_named(look))


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
