"""Full-text search: what the user types is found anywhere in a text, and where words begin first.

The index holds the grams of each text after folding: of words, every three characters in a row with
a mark for where they begin and end, and the first three with that mark; of Chinese, Japanese and
Korean, every sign and every two; of punctuation and symbols, every one and with each neighbour. It
only picks candidates: whether a text matches is seen in the text. Any text is a valid search.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain

from baton.core.folded_search import LETTER, MARKS, WIDE, SearchQuery, Snippet, fold
from baton.core.history_types import SearchHit
from baton.core.messages import Role
from baton.history.rows import encode_json, reject_bad_values
from baton.platform.sqlite import Connection, Row, clean_text, is_read_only

_MAX_TERMS = 64
"""So many grams of a query pick the candidates."""

_BATCH = 500
"""So many texts are added to the index at once (0.2 s), so that another Baton can write between."""

_PENDING = """
    SELECT key, text FROM turns WHERE key IN (SELECT value FROM json_each(:keys))
    UNION ALL SELECT -key, title FROM conversations
    WHERE key IN (SELECT -value FROM json_each(:keys))
"""
# FTS5 walks the matches from the newest rowid down: no sorting of them all.
_TURNS_QUERY = """
    SELECT c.id AS conversation, c.title, turns.id AS turn, turns.role, turns.created, turns.worker,
        turns.run, c.program, turns.text
    FROM {source}
    JOIN conversations AS c ON c.id = turns.conversation AND c.hidden_at IS NULL
    WHERE {condition} ORDER BY {key} DESC
"""
_TITLES_QUERY = """
    SELECT c.id AS conversation, c.title, coalesce(c.head, '') AS turn, 'user' AS role,
        c.updated AS created, '' AS worker, NULL AS run, c.program, c.title AS text
    FROM {source}
    WHERE {condition} AND c.hidden_at IS NULL ORDER BY {key}
"""
_COST = "SELECT sum(cost) FROM calls WHERE run = ?"


def has_pending(connection: Connection) -> bool:
    """Whether anything isn't in the index yet, and may be added."""
    if is_read_only(connection):
        return False
    return connection.execute("SELECT 1 FROM search_pending").fetchone() is not None


def index_pending(connection: Connection) -> None:
    """Add some of what isn't in the index yet."""
    found = connection.execute("SELECT key FROM search_pending LIMIT ?", [_BATCH])
    keys = {"keys": encode_json([row["key"] for row in found])}
    connection.executemany(
        "INSERT INTO search_grams (rowid, grams) VALUES (?, ?)",
        (
            (at, " ".join(_text_grams(fold(text))))
            for at, text in connection.execute(_PENDING, keys)
        ),
    )
    chosen = "SELECT value FROM json_each(:keys)"
    connection.execute(f"DELETE FROM search_pending WHERE key IN ({chosen})", keys)


def remove(connection: Connection, keys: str, *values: str) -> None:
    """Take those texts out of the index, and of the file, whose keys an SQL query yields.

    Where any of them is there, this takes as long as writing the index again.
    """
    removed = connection.execute(f"DELETE FROM search_grams WHERE rowid IN ({keys})", values)
    if removed.rowcount > 0:
        connection.execute("INSERT INTO search_grams (search_grams) VALUES ('optimize')")


def remove_conversations(connection: Connection, ids: str) -> None:
    """Take conversations (a JSON list) out of the index: all at once, not each by a trigger."""
    chosen = "IN (SELECT value FROM json_each(?))"
    keys = f"""SELECT key FROM turns WHERE conversation {chosen}
        UNION ALL SELECT -key FROM conversations WHERE id {chosen}"""
    remove(connection, keys, ids, ids)


def search(connection: Connection, query: str, limit: int) -> list[SearchHit]:
    """Return the turns that hold all that was typed, and conversations whose title does.

    First those where it is whole words (the last one perhaps unfinished), then those where it is
    parts of words; each the newest first. What stands in double quotes is looked for as a whole.
    In the history of a newer Baton, all texts are read: it may have another index.
    """
    indexed = not is_read_only(connection)
    hits: list[SearchHit] = []
    for sought in (SearchQuery.of(clean_text(query), whole=whole) for whole in (True, False)):
        if len(hits) >= limit or not sought.parts:
            break
        known = {hit.turn for hit in hits}
        turns = _hits(connection, _TURNS_QUERY, sought, limit, known, indexed)
        known |= {hit.conversation for hit in chain(hits, turns)}
        titles = _hits(connection, _TITLES_QUERY, sought, limit, known, indexed)
        hits += sorted(turns + titles, key=lambda hit: -hit.created)
    return hits[:limit]


def _hits(
    connection: Connection,
    query: str,
    sought: SearchQuery,
    limit: int,
    known: set[str],
    indexed: bool,
) -> list[SearchHit]:
    """Return the first matches of a query that are of no known turn (conversation, of titles)."""
    is_titles = query is _TITLES_QUERY
    table, sign = ("conversations AS c", "-") if is_titles else ("turns", "")
    key = "c.key" if is_titles else "turns.key"
    if indexed and match_expression(sought):
        source = f"search_grams JOIN {table} ON {key} = {sign}search_grams.rowid"
        condition = f"search_grams MATCH ? AND search_grams.rowid {'<' if is_titles else '>'} 0"
        key = "search_grams.rowid"
    else:
        source, condition, key = table, "? IS NOT NULL", f"{sign}{key}"
    rows = connection.execute(
        query.format(source=source, condition=condition, key=key), [match_expression(sought)]
    )
    found: list[SearchHit] = []
    with reject_bad_values():
        for row in rows:
            is_new = row["conversation" if is_titles else "turn"] not in known
            folded = fold(row["text"]) if is_new else ""
            if is_new and sought.is_in(folded):
                found.append(_hit(connection, row, sought.snippet(row["text"], folded)))
                if len(found) == limit:
                    break
    return found


def _hit(connection: Connection, row: Row, shown: Snippet) -> SearchHit:
    where, title, turn, role, created, worker, run, program, _ = row
    is_answer = Role(role) is Role.ASSISTANT and run is not None
    cost = connection.execute(_COST, [run]).fetchone()[0] if is_answer else 0
    role, cost, (text, at) = Role(role), cost or 0, shown
    return SearchHit(where, title, turn, role, text, at, created, worker, cost, program)


# Grams

_WORD = re.compile(f"(?:(?!_)[\\w{MARKS}])+")
_RUN = re.compile(f"[{WIDE}]+|{LETTER}+")
_SIGN = re.compile(f"[!-/:-@\\[-`{{-~]|[^\\w\\s{MARKS}\\x00-\\x7f]")
_EDGE = "\uf8ff"
"""Stands in a gram for where a word begins or ends."""

_AS_TOKENS = {code: 0xE000 + code for code in range(33, 127) if not chr(code).isalnum()}
"""ASCII punctuation as private characters, which FTS5's tokenizer takes for letters."""

_MAX_CACHED_CHARS = 32


def _text_grams(text: str) -> set[str]:
    """Return the grams of a folded text."""
    grams: set[str] = set()
    for word in set(_WORD.findall(text)):
        grams |= _word_grams(word) if len(word) <= _MAX_CACHED_CHARS else _all_grams(word)
    return grams | _sign_grams(text)


def _all_grams(word: str) -> frozenset[str]:
    grams: set[str] = set()
    for run in _RUN.findall(word):
        if _is_wide(run[0]):
            grams.update(run, _rows(run, 2))
        else:
            edged = f"{_EDGE}{run}{_EDGE}"
            grams.update(_rows(edged, 3), (edged[:2], edged[:4], edged[-2:]))
    return frozenset(grams)


_word_grams = lru_cache(4_000)(_all_grams)


def _sign_grams(text: str) -> set[str]:
    """Return punctuation and symbols, each alone and with either neighbour."""
    found = {text[max(0, sign.start() - 1) : sign.start() + 2] for sign in _SIGN.finditer(text)}
    return set[str]().union(*map(_grams_around, found))


@lru_cache(4_000)
def _grams_around(near: str) -> frozenset[str]:
    """Return the grams of a sign and its neighbours."""
    grams = [gram for gram in (*near, *_rows(near, 2)) if _SIGN.search(gram)]
    kept = (gram for gram in grams if gram.isprintable() and " " not in gram)
    return frozenset(gram.translate(_AS_TOKENS) for gram in kept)


def match_expression(query: SearchQuery) -> str:
    """Return the FTS5 query for the candidates; "" where only reading everything finds them."""
    terms = {term for part in query.parts for term in _terms(*part)}
    return " ".join(sorted(terms, key=lambda term: (-len(term), term))[:_MAX_TERMS])


def _terms(part: str, begins: bool, ends: bool) -> Iterator[str]:
    """Yield FTS5 terms for grams of all texts that hold a part of a query."""
    yield from (f'"{gram}"' for gram in _sign_grams(part))
    for match in _RUN.finditer(part):
        run = match[0]
        if _is_wide(run[0]):
            yield from (f'"{gram}"' for gram in (_rows(run, 2) if len(run) > 1 else run))
            continue
        left = _EDGE if begins or match.start() > 0 else ""
        right = _EDGE if ends or match.end() < len(part) else ""
        edged = left + run + right
        if len(edged) > 2:
            yield from (f'"{gram}"' for gram in _rows(edged, 3))
            if left and len(edged) > 3:
                # Without it, all texts with both "in" and "king" would be read for "ing".
                yield f'"{edged[:4]}"'
        else:
            yield f'"{edged}"' if left or right else f'"{run}"*'


def _rows(text: str, length: int) -> Iterator[str]:
    return (text[at : at + length] for at in range(len(text) - length + 1))


@lru_cache(4096)
def _is_wide(sign: str) -> bool:
    return re.match(f"[{WIDE}]", sign) is not None
