"""Count the functions and files between `baton ask` and the first token on stdout, and a routing.

    .venv/bin/python scripts/count_hops.py             prints the figures
    .venv/bin/python scripts/count_hops.py --list      and the functions

It plays one prompt with the model that comes with Baton, in a home of its own, and looks at the
stacks of both processes where the way passes: the question goes into the pipe, a token comes out of
the child, arrives, becomes an event, is written. A hop is a function of Baton on one of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROMPT = "Hello."
ASYNC_GENERATOR = 0x200

Place = tuple[str, str, Callable[[dict[str, Any]], bool]]


def _sends(*kinds: str) -> Callable[[dict[str, Any]], bool]:
    return lambda values: type(values["message"]).__struct_config__.tag in kinds


def _is_call(values: dict[str, Any]) -> bool:
    return type(values["self"]).__name__ == "Call"


def _is_text(values: dict[str, Any]) -> bool:
    return type(values.get("item")).__name__ == "StepText"


TOKEN: dict[str, Place] = {
    "start": ("baton/core/run/orchestra.py", "play", lambda values: True),
    "listening": ("baton/core/run/run.py", "__aiter__", lambda values: True),
    "steps": ("asyncio/taskgroups.py", "create_task", lambda values: True),
    "ask": ("baton/ipc/messages.py", "encode", _sends("ask")),
    "child": ("baton/ipc/messages.py", "encode", _sends("text")),
    "arrival": ("baton/ipc/process.py", "put", _sends("text")),
    "waiting": ("baton/ipc/process.py", "receive", _is_call),
    "event": ("asyncio/queues.py", "put_nowait", _is_text),
    "output": ("baton/cli/output.py", "write", lambda values: bool(values["text"].strip())),
}
ROUTE: dict[str, Place] = {
    "estimate": ("baton/ipc/messages.py", "encode", _sends("estimate")),
    "decision": ("baton/routing/child/router_model.py", "estimate", lambda values: True),
}
"""Where the stacks are taken: a file, a function, and whether its arguments are meant."""


def trace(out: Path) -> None:
    """Log the stacks of this process at those places."""
    import threading

    places = {**TOKEN, **ROUTE}

    def look(frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        for name, (file, function, is_meant) in places.items():
            is_here = code.co_name == function and code.co_filename.endswith(file)
            if is_here and is_meant(frame.f_locals):
                with out.open("a", encoding="utf-8") as log:
                    log.write(json.dumps([name, list(_stack(frame))]) + "\n")

    threading.setprofile(look)
    sys.setprofile(look)


def _stack(frame: FrameType | None) -> Iterable[tuple[str, str, bool]]:
    while frame is not None:
        code = frame.f_code
        _, is_baton, file = code.co_filename.partition("/baton/")
        if is_baton and code.co_name not in ("<module>", "<lambda>", "<listcomp>", "<genexpr>"):
            yield file, code.co_qualname, bool(code.co_flags & ASYNC_GENERATOR)
        frame = frame.f_back


def figures() -> dict[str, Any]:
    """Play a prompt, and return what was counted."""
    with tempfile.TemporaryDirectory() as home:
        out = Path(home) / "stacks"
        hook = Path(home) / "hook"
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(
            f"import sys\nsys.path.append({str(ROOT / 'scripts')!r})\nimport pathlib, count_hops\n"
            f"count_hops.trace(pathlib.Path({str(out)!r}))\n",
            "utf-8",
        )
        environ = {**os.environ, "HOME": home, "PYTHONPATH": str(hook)}
        for name in ("CONFIG", "DATA", "STATE", "CACHE"):
            environ.pop(f"XDG_{name}_HOME", None)
        command = [sys.executable, "-P", "-m", "baton", "ask", "--max-tokens=8", PROMPT]
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL, timeout=120)
        seen = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    first: dict[str, list[tuple[str, str, bool]]] = {}
    for name, stack in seen:
        first.setdefault(name, [tuple(item) for item in stack])
    token = _distinct(first, TOKEN)
    waiting = [stack for name, stack in seen if name in ("listening", "waiting")]
    metered = [stack for stack in waiting if any("MeteredWorker" in item[1] for item in stack)]
    resumed = [item for stack in (waiting[0], metered[-1]) for item in stack if item[2]]
    route = _distinct(first, ROUTE)
    return {
        "token_hops": len(token),
        "token_files": len({file for file, _, _ in token}),
        "async_generators": len(resumed),
        "routing_hops": len(route),
        "routing_files": len({file for file, _, _ in route}),
        "routing_questions": sum(name == "estimate" for name, _ in seen),
        "token": [f"{file}: {function}" for file, function, _ in token],
        "route": [f"{file}: {function}" for file, function, _ in route],
    }


def _distinct(
    stacks: dict[str, list[tuple[str, str, bool]]], places: Iterable[str]
) -> list[tuple[str, str, bool]]:
    way = [item for place in places for item in reversed(stacks.get(place, []))]
    return list(dict.fromkeys(way))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--list", action="store_true", help="print the functions, too")
    is_listed = parser.parse_args().list
    for name, value in figures().items():
        if isinstance(value, int):
            print(f"{name:18} {value}")
        elif is_listed:
            print(f"{name}:", *value, sep="\n  ")


if __name__ == "__main__":
    main()
