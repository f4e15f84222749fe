"""Full-text search: any text a person types is a valid query."""

from __future__ import annotations

import os

from baton.core.history_types import SearchHit
from baton.core.messages import Role
from baton.core.sanitiser import sanitise
from baton.history.rows import reject_bad_values
from baton.platform.sqlite import Connection, Row, clean_text

_CHARS_BEFORE, _CHARS_AFTER = 60, 140
"""How many characters of the matching line are shown around the first match."""

_MAX_WORDS = 32

# FTS5 walks the matches from the newest rowid down and stops at the limit: no sorting of them all.
_TURNS_QUERY = """
    SELECT c.id AS conversation, c.title, turns.id AS turn, turns.role, turns.created,
        highlight(turns_search, 0, ?, ?) AS marked
    FROM turns_search
    JOIN turns ON turns.key = turns_search.rowid
    JOIN conversations AS c ON c.id = turns.conversation AND c.hidden_at IS NULL
    WHERE turns_search MATCH ? ORDER BY turns_search.rowid DESC LIMIT ?
"""
_TITLES_QUERY = """
    SELECT c.id AS conversation, c.title, coalesce(c.head, '') AS turn, 'user' AS role,
        c.updated AS created, highlight(titles_search, 0, ?, ?) AS marked
    FROM titles_search
    JOIN conversations AS c ON c.key = titles_search.rowid AND c.hidden_at IS NULL
    WHERE titles_search MATCH ? ORDER BY titles_search.rowid DESC LIMIT ?
"""


def search(connection: Connection, query: str, limit: int) -> list[SearchHit]:
    """Return the newest turns that hold all the words, and conversations whose title does."""
    expression = match_expression(query)
    if not expression:
        return []
    opening, closing = os.urandom(8).hex(), os.urandom(8).hex()  # in nobody's text
    values = [opening, closing, expression, limit]
    with reject_bad_values():
        hits = [_hit(row, opening, closing) for row in connection.execute(_TURNS_QUERY, values)]
        found = {hit.conversation for hit in hits}
        titles = [
            _hit(row, opening, closing)
            for row in connection.execute(_TITLES_QUERY, values)
            if row["conversation"] not in found
        ]
    return sorted(hits + titles, key=lambda hit: -hit.created)[:limit]


def match_expression(query: str) -> str:
    """Return the FTS5 query for what a person typed: all words, the last one perhaps unfinished.

    Empty when there is no word in it.
    """
    words = [
        word
        for word in clean_text(query[:1000]).replace("\0", " ").split()
        if any(map(str.isalnum, word))
    ]
    quoted = ['"' + word.replace('"', '""') + '"' for word in words[:_MAX_WORDS]]
    return " ".join(quoted) + "*" if quoted else ""


def _hit(row: Row, opening: str, closing: str) -> SearchHit:
    snippet, spans = _snippet(row["marked"], opening, closing)
    return SearchHit(
        row["conversation"],
        row["title"],
        row["turn"],
        Role(row["role"]),
        snippet,
        spans,
        row["created"],
    )


def _snippet(marked: str, opening: str, closing: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Cut the first matching line out of a marked text: plain text, and where the matches are."""
    before, _, rest = marked.partition(opening)
    before = before[before.rfind("\n") + 1 :]
    snippet = ("…" if len(before) > _CHARS_BEFORE else "") + _single_line(before[-_CHARS_BEFORE:])
    room = len(snippet) + _CHARS_AFTER
    spans: list[tuple[int, int]] = []
    for piece in rest.partition("\n")[0].split(opening):
        match, _, after = piece.partition(closing)  # a match may go on in the next line
        start = len(snippet)
        snippet += _single_line(match)
        spans.append((start, min(len(snippet), room)))
        snippet += _single_line(after[:room])
        if len(snippet) >= room:
            return snippet[:room] + "…", tuple(spans)
    return snippet, tuple(spans)


def _single_line(text: str) -> str:
    """Return text on one line that needs no more sanitising, which would move the spans."""
    return sanitise(text).replace("\n", " ").replace("\t", " ")
