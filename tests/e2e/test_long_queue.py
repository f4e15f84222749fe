"""Two hundred prompts sent while an answer is written, and taken out of the queue again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from support import streaming_app
from support.terminal import Terminal

COUNT = 200


def test_two_hundred_prompts_are_queued_and_cancelled(tmp_path: Path) -> None:
    command = [sys.executable, "-P", str(streaming_app.__file__), str(tmp_path)]
    size = {"COLUMNS": "140", "LINES": "40"}
    env = {**os.environ, "HOME": str(tmp_path), **size}
    terminal = Terminal(command, env, columns=140, lines=40)
    try:
        terminal.wait(lambda shown: shown.count("writing") >= 4)
        for number in range(COUNT):
            terminal.send(f"prompt {number}\r")
        terminal.wait_for(f"Waiting: {COUNT - 3} earlier")
        terminal.wait(lambda shown: "Waiting" in shown and shown.count(f" {COUNT}") >= 1)
        terminal.send("\x1b")
        terminal.wait_for("Enter sends what waits")
        terminal.send("\t")
        terminal.wait_for("y copy")
        terminal.send("\t")
        terminal.wait_for("d remove")
        terminal.send("d" * (COUNT - 1))
        terminal.wait(lambda shown: "earlier" not in shown and "Waiting: prompt" in shown)
        terminal.send("\r")  # the last one is taken back to be edited
        terminal.wait(lambda shown: "Waiting" not in shown)
        terminal.send(" again\r")
        terminal.wait_for(f"prompt {COUNT - 1} again")
        terminal.wait_for("writing")
        terminal.send("\x11")
        assert terminal.wait_end() == 0
    finally:
        terminal.close()
