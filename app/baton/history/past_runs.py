"""What a person asked in a time gone by, for whoever asks what else could have come of it."""

from __future__ import annotations

from dataclasses import replace

from baton.core.history_types import PastRun
from baton.core.labels import Label
from baton.history import rows
from baton.history.feedback_store import LONGEST, of_turns
from baton.platform.sqlite import Connection


def past(connection: Connection, since: float, limit: int) -> list[PastRun]:
    """Return the newest finished runs since then, oldest first; none of deleted conversations."""
    prompts = {
        row["id"]: (row["asked"], row["label"])
        for row in connection.execute(
            """SELECT runs.id, substr(turns.text, 1, ?) AS asked, c.label FROM runs
            JOIN conversations AS c ON c.id = runs.conversation AND c.hidden_at IS NULL
            JOIN turns ON turns.id = runs.prompt
            WHERE runs.created >= ? AND runs.status = 'finished'
            ORDER BY runs.key DESC LIMIT ?""",
            [LONGEST, since, limit],
        )
    }
    wanted = "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY key"
    found = rows.runs(connection, wanted, rows.encode(list(prompts)))
    done = of_turns(connection, [record.answer for record in found])
    with rows.genuine():
        return [
            PastRun(
                replace(record, events=rows.events(connection, record.id)),
                prompts[record.id][0],
                Label(prompts[record.id][1]),
                done.get(record.answer, {}),
            )
            for record in found
        ]
