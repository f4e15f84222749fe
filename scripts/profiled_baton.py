"""Runs Baton so that it and its children write down their time: `profiled_baton.py OUT HOW WORDS`.

Each process writes OUT/PID.json over and over: the processor time of its threads in nanoseconds, by
what they run; in the front and the model's process only from an answer's first text to its end.
Where HOW is `functions`, these two write the calls and seconds of each function of the main thread
as well; what a built-in function takes is its caller's, and waiting is left out.
"""

from __future__ import annotations

import cProfile
import json
import os
import sys
import threading
import time
from collections import Counter, defaultdict
from pathlib import Path
from types import CodeType

from baton.cli import main
from baton.core.messages import Chunk
from baton.ipc import process
from baton.ipc.messages import FinalReply, Message
from baton.workers.local.messages import AnswerText

SECONDS = 0.05
WAITING = ("'acquire'", "'poll'", "'select'", "'get'", "'read'", "'wait'", "sleep")
"""Parts of the names of what a thread waits in."""


def thread_times() -> dict[str, int]:
    """Return the nanoseconds of processor time of this process's threads, by what they run."""
    names = {thread.native_id: thread.name for thread in threading.enumerate()}
    found = defaultdict[str, int](int)
    for task in Path("/proc/self/task").iterdir():
        name = names.get(int(task.name), "native")
        kind = name.rpartition("(")[2].rstrip(")") if "(" in name else name.partition("_")[0]
        try:
            found[kind] += int((task / "schedstat").read_text("ascii").split()[0])
        except (OSError, IndexError):
            continue  # it has just ended
    return dict(found)


def function_times(profile: cProfile.Profile) -> dict[str, tuple[int, int, float]]:
    """Return how often functions ran, and the calls and seconds of them and of built-in ones."""
    found = {}
    for entry in profile.getstats():
        code = entry.code
        if isinstance(code, CodeType):
            inner = [(one, one.code) for one in entry.calls or () if isinstance(one.code, str)]
            own = [one for one, name in inner if not any(word in name for word in WAITING)]
            seconds = entry.inlinetime + sum(one.inlinetime for one in own)
            calls = entry.callcount + sum(one.callcount for one in own)
            found[f"{code.co_filename}:{code.co_name}"] = (entry.callcount, calls, seconds)
    return found


class Recorder:
    """Adds up what a process uses between `begin` and `end`, and writes it down."""

    def __init__(self, role: str, file: Path, how: str) -> None:
        self._role = role
        self._file = file
        self._profile = cProfile.Profile() if how == "functions" and role in ROLES else None
        self._before: dict[str, int] | None = None
        self._threads = Counter[str]()

    def begin(self) -> None:
        """Count from now on, unless it does already."""
        if self._before is None:
            self._before = thread_times()
            if self._profile is not None:
                self._profile.enable()

    def end(self) -> None:
        """Count no more, and write down what was used."""
        if (before := self._before) is None:
            return
        self._before = None
        if self._profile is not None:
            self._profile.disable()
        now = thread_times()
        self._threads.update({name: now[name] - before.get(name, 0) for name in now})
        functions = function_times(self._profile) if self._profile is not None else {}
        found = {"role": self._role, "threads": self._threads, "functions": functions}
        part = self._file.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.replace(self._file)

    def follow_front(self) -> None:
        """Count while the front takes an answer."""
        from baton.workers.local import model_process

        chunk_of = model_process._chunk_of

        def follow(message: Message, child: process.Child) -> Chunk:
            if isinstance(message, AnswerText):
                self.begin()
            elif isinstance(message, FinalReply):
                self.end()
            return chunk_of(message, child)

        model_process._chunk_of = follow

    def follow_runner(self) -> None:
        """Count while the model's process writes an answer."""
        from baton.workers.local.child.scheduler import TextStream

        add, finish = TextStream.add, TextStream.finish

        def follow(stream: TextStream, piece: bytes, answers: int) -> None:
            self.begin()
            add(stream, piece, answers)

        def follow_end(stream: TextStream, *, is_cut: bool = False) -> None:
            finish(stream, is_cut=is_cut)
            self.end()

        followed = {"add": follow, "finish": follow_end}
        for name, replacement in followed.items():
            setattr(TextStream, name, replacement)

    def follow_all(self) -> None:
        """Count all the time."""
        while True:
            self.begin()
            time.sleep(SECONDS)
            self.end()


ROLES = {"front": Recorder.follow_front, "runner": Recorder.follow_runner}


def run(role: str, out: str, how: str, words: list[str]) -> None:
    """Run Baton's command line."""
    own = [sys.executable, "-P", __file__, out, how]
    process.own_command = lambda *also: [*own, *also]
    recorder = Recorder(role, Path(out) / f"{os.getpid()}.json", how)
    if role in ROLES:
        ROLES[role](recorder)
    else:
        threading.Thread(target=recorder.follow_all, name="recorder", daemon=True).start()
    sys.argv = ["baton", *words]
    main()


if __name__ == "__main__":
    _, folder, kind, *rest = sys.argv
    run(rest[1] if rest[0] == "--child" else "front", folder, kind, rest)
