"""What programs said, by access token: their runs, and the marks by which texts are recognised."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from baton.core.history_types import OwnAnswer, OwnRun
from baton.core.labels import Label
from baton.core.messages import Role
from baton.core.text_match import LongText, SaidTexts, Saying, fingerprint, long_text
from baton.history import rows
from baton.platform.sqlite import Connection, clean_text


def own_run(connection: Connection, id: str, client: str) -> OwnRun | None:
    """Return the run of an access token with exactly that id, None for any other or a deleted one.

    Its events are not among it.
    """
    found = rows.runs(
        connection,
        """JOIN conversations AS c ON c.id = runs.conversation AND c.hidden_at IS NULL
        JOIN turns ON turns.id = runs.answer WHERE runs.id = ? AND turns.client = ?""",
        clean_text(id),
        client,
    )
    if not found:
        return None
    [record] = found
    others = connection.execute(
        "SELECT 1 FROM turns WHERE conversation = ? AND client <> ? LIMIT 1",
        [record.conversation, client],
    ).fetchone()
    return OwnRun(record, others is None)


_MAX_ANSWERS = 50


def own_answers(connection: Connection, said: str, client: str) -> list[OwnAnswer]:
    """Return the newest answers of an access token to what `said` stands for, the latest first."""
    found = connection.execute(
        f"""SELECT runs.id, {rows.ANSWER_TEXT} FROM turns AS asked
        JOIN runs ON runs.conversation = asked.conversation AND runs.prompt = asked.id
        JOIN turns ON turns.id = runs.answer
        WHERE asked.said = ? AND asked.client = ? ORDER BY runs.key DESC LIMIT ?""",
        [said, client, _MAX_ANSWERS],
    )
    return [OwnAnswer(*row) for row in found]


def private_openings(connection: Connection) -> list[str]:
    """Return how the texts begin that are private and long enough to be recognised alone."""
    found = connection.execute(
        "SELECT DISTINCT opening FROM turns WHERE opening IS NOT NULL AND label <> 'cloud'"
    )
    return [row["opening"] for row in found]


_SAID_TOGETHER = """
    SELECT DISTINCT asked.fingerprint || turns.fingerprint AS said, turns.label, turns.client
    FROM turns JOIN turns AS asked ON asked.id = turns.parent
    WHERE turns.role = 'assistant'
        AND turns.fingerprint IN (SELECT value FROM json_each(:answers))
        AND asked.fingerprint IN (SELECT value FROM json_each(:prompts))
    UNION SELECT prompt || answer, label, client FROM private_marks
    WHERE prompt IN (SELECT value FROM json_each(:prompts))
            AND answer IN (SELECT value FROM json_each(:answers))
        OR answer = '' AND prompt IN (SELECT value FROM json_each(:prompts))
    UNION SELECT whole, label, client FROM turns
    WHERE whole IN (SELECT value FROM json_each(:long))
"""
"""Who said what is brought back, and how privately: prompts with their answers, and long texts."""


def private_texts(connection: Connection, openings: Sequence[str]) -> list[LongText]:
    """Return what the private texts that begin so are recognised by, each once."""
    found = connection.execute(
        "SELECT DISTINCT opening, length, whole FROM turns WHERE label <> 'cloud' "
        "AND opening IN (SELECT value FROM json_each(?))",
        [rows.encode_json(openings)],
    )
    return [LongText(*row) for row in found]


def sayings(connection: Connection, said: SaidTexts, long: Collection[str]) -> list[Saying]:
    """Return who said before what a request brings back: prompts with their answers, long texts.

    `long` are the fingerprints of the private ones that stand in it.
    """
    lists = {"prompts": said.prompts, "answers": said.answers, "long": long}
    values = {name: rows.encode_json(sorted(those)) for name, those in lists.items()}
    found = connection.execute(_SAID_TOGETHER, values)
    brought = said.pairs.union(said.prompts, long)
    with rows.reject_bad_values():
        return [
            Saying(row["said"], row["client"], Label(row["label"]))
            for row in found
            if row["said"] in brought
        ]


Marks = tuple[str | None, str | None, int | None, str | None]
NO_MARKS: Marks = (None, None, None, None)


def text_marks(text: str, role: Role) -> Marks:
    """Return what a text is recognised by: its fingerprint, and what suffices for a long one."""
    text = clean_text(text)
    return fingerprint(text, role), *(long_text(text) or NO_MARKS[1:])


UNKNOWN_TEXTS = """SELECT key, text, role FROM turns
    WHERE fingerprint IS NULL AND label <> 'cloud' AND status <> 'streaming'"""
"""Finds private texts that can't be recognised yet: from before, or cut off by a crash."""


def mark_unknown_texts(connection: Connection) -> None:
    """Make private texts recognisable that aren't yet."""
    connection.executemany(
        "UPDATE turns SET fingerprint = ?, opening = ?, length = ?, whole = ? WHERE key = ?",
        [
            [*text_marks(row["text"], Role(row["role"])), row["key"]]
            for row in connection.execute(UNKNOWN_TEXTS).fetchall()
        ],
    )


def keep_private_marks(
    connection: Connection, said: Sequence[tuple[str, str]], client: str, label: Label
) -> None:
    """Have prompts and their answers recognised as private although they aren't kept.

    An answer is "" where there is none yet.
    """
    marks = []
    for prompt, answer in said:
        asked, alone, *_ = text_marks(prompt, Role.USER)
        marks += [(asked, text_marks(answer, Role.ASSISTANT)[0])] if answer else []
        marks += [(asked, "")] if alone else []
    connection.executemany(
        "INSERT OR IGNORE INTO private_marks VALUES (?, ?, ?, ?)",
        [(*mark, client, label) for mark in marks],
    )


def mark_removed_texts(connection: Connection, condition: str, value: str) -> None:
    """Keep the fingerprints of the private ones of some turns that are about to be removed."""
    mark_unknown_texts(connection)
    private = f"{condition} AND turns.label <> 'cloud'"
    connection.execute(
        f"""INSERT OR IGNORE INTO private_marks
            SELECT asked.fingerprint, turns.fingerprint, turns.client, turns.label
            FROM turns JOIN turns AS asked ON asked.id = turns.parent
            WHERE {private} AND turns.role = 'assistant' AND turns.fingerprint IS NOT NULL
                AND asked.fingerprint IS NOT NULL
            UNION SELECT fingerprint, '', client, label FROM turns
            WHERE {private} AND role = 'user' AND opening IS NOT NULL""",
        [value, value],
    )
