"""Markdown as a model writes it, shown without obeying it. Imported late: parsing is costly."""

from __future__ import annotations

from markdown_it import MarkdownIt
from textual.widgets import Markdown


def _parser() -> MarkdownIt:
    """Make a parser that shows HTML as text, and a picture as the link that it is."""
    return MarkdownIt("gfm-like", {"html": False}).disable("image")


class Answer(Markdown):
    """An answer's text; links are never opened by themselves."""

    BULLETS = ["• ", "◦ ", "· "]  # noqa: RUF012

    def __init__(self, text: str = "") -> None:
        super().__init__(text, parser_factory=_parser, open_links=False)


def code_blocks(text: str) -> list[str]:
    """Return the code blocks of a Markdown text, from its source."""
    tokens = _parser().parse(text)
    return [token.content for token in tokens if token.type in ("fence", "code_block")]
