"""Runs Baton so that it and its children write down their time: `profiled_baton.py OUT HOW WORDS`.

Each process writes OUT/PID.json over and over: the processor time of its threads in nanoseconds, by
what they run. Where HOW is `functions`, also the calls and seconds of each function of the main
thread; what a built-in function takes is its caller's, and waiting counts for nobody.
"""

from __future__ import annotations

import cProfile
import json
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import CodeType

from baton.cli import main
from baton.ipc import process

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


def function_times(profile: cProfile.Profile) -> dict[str, tuple[int, float]]:
    """Return the calls and seconds of functions, those of built-in ones with their callers'."""
    found = {}
    for entry in profile.getstats():
        code = entry.code
        if isinstance(code, CodeType):
            inner = [(one, one.code) for one in entry.calls or () if isinstance(one.code, str)]
            own = [one for one, name in inner if not any(word in name for word in WAITING)]
            seconds = entry.inlinetime + sum(one.inlinetime for one in own)
            calls = entry.callcount + sum(one.callcount for one in own)
            found[f"{code.co_filename}:{code.co_name}"] = (calls, seconds)
    return found


def record(file: Path, profile: cProfile.Profile) -> None:
    """Write down what was used until now, over and over."""
    while True:
        time.sleep(SECONDS)
        part = file.with_suffix(".part")
        found = {"role": ROLE, "threads": thread_times(), "functions": function_times(profile)}
        part.write_text(json.dumps(found))
        part.replace(file)


def run(out: str, how: str, words: list[str]) -> None:
    """Run Baton's command line."""
    own = [sys.executable, "-P", __file__, out, how]
    process.own_command = lambda *also: [*own, *also]
    profile = cProfile.Profile()
    file = Path(out) / f"{os.getpid()}.json"
    threading.Thread(target=record, args=(file, profile), name="recorder", daemon=True).start()
    sys.argv = ["baton", *words]
    if how == "functions":
        profile.enable()
    main()


if __name__ == "__main__":
    ROLE = sys.argv[4] if sys.argv[3] == "--child" else "front"
    run(sys.argv[1], sys.argv[2], sys.argv[3:])
