"""A provider is set up in the real app, on a real terminal, and spends within its ceiling."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

import pytest

from support.fake_cloud import Cloud, Reply
from support.terminal import Terminal

BATON = [sys.executable, "-I", "-m", "baton"]


def states(home: Path) -> list[tuple[str, int]]:
    """Return the status of every paid call, and its charge in billionths of a dollar."""
    with sqlite3.connect(home / "data" / "ledger.db") as db:
        return list(db.execute("SELECT status, charged FROM calls ORDER BY key"))


@pytest.mark.sampled(0.5)
def test_what_is_connected_is_asked_after_a_yes_and_no_more_than_the_ceiling(home: Path) -> None:
    with Cloud(reply=Reply(text="Far away it is known.")) as cloud:
        app = Terminal(BATON, {**os.environ, "COLUMNS": "100", "LINES": "30"})
        try:
            app.wait_for("Ask anything")
            app.send(f"/connect {cloud.base('server')} gpt-5-mini\r")
            app.wait_for("paste it, unless it is set")
            app.send("\r")
            app.send("\r")
            app.wait_for("What does it cost?")
            app.send("0.25 2\r")
            app.wait_for("gpt-5-mini is a worker from now on")
            app.wait_for("At most $0.50 for today")
            app.send("/model gpt-5-mini\r")
            app.wait_for("cloud worker")
            app.send("Who knows?\r")
            app.wait_for("Don't send")
            assert cloud.posts == 0, "nothing leaves before the yes"
            app.send("\t")
            app.wait_for("Enter choose  Esc leave it")
            app.send("\x1b[C\r")
            app.wait_for("Far away it is known.")
            app.wait_for("of $0.50")
            assert cloud.posts == 1

            app.send("/budget day 0.0001\r")
            app.wait_for("under $0.0001 of $0.0001")
            app.send("And who else?\r")
            app.wait_for("nothing was sent")
            app.send("\x11")
            assert app.wait_end() == 0
        finally:
            app.close()
        assert cloud.posts == 1
    [(status, charged)] = states(home)
    assert status == "settled"
    assert 0 < charged < 500_000_000
