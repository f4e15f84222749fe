"""Count the functions and files that a prompt, a routing, a cloud call and a download pass.

    .venv/bin/python scripts/count_hops.py             prints the figures
    .venv/bin/python scripts/count_hops.py --list      and the functions

It runs one prompt with the model that comes with Baton, one with a cloud worker (the tests' cloud)
and pulls one model (from the tests' hub), each in a home of its own, and looks at the stacks of all
processes where the way passes: the question goes into the pipe, a token comes out of the child,
arrives, becomes an event, is written. A hop is a function of Baton on one of them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
PROMPT = "Hello."
ASYNC_GENERATOR = 0x200
MODEL = "maker/models"
CLOUD_WORKER = """
[[workers]]
id = "gpt"
kind = "cloud"
model = "openai/gpt-4o-mini"
base_url = "{address}"
price = {{ input = "1", output = "4" }}
"""

Place = tuple[str, str, Callable[[dict[str, Any]], bool]]
Stack = list[tuple[str, str, bool]]
"""From the innermost function outwards: its file, its name, whether it is an async generator."""


def _sends(*kinds: str) -> Callable[[dict[str, Any]], bool]:
    return lambda values: type(values["message"]).__struct_config__.tag in kinds


def _is_call(values: dict[str, Any]) -> bool:
    return type(values["self"]).__name__ == "Call"


def _is_text(values: dict[str, Any]) -> bool:
    return type(values.get("item")).__name__ == "StepText"


TOKEN: dict[str, Place] = {
    "start": ("baton/core/run/orchestra.py", "run", lambda values: True),
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
CLOUD: dict[str, Place] = {
    **{name: TOKEN[name] for name in ("start", "listening", "steps")},
    "hold": ("baton/money/ledger.py", "hold_in_turn", lambda values: True),
    "call": ("baton/ipc/messages.py", "encode", _sends("call")),
    "request": ("baton/ipc/messages.py", "encode", _sends("request")),
    "sent": ("baton/money/ledger.py", "sent", lambda values: True),
    "go": ("baton/ipc/messages.py", "encode", _sends("go")),
    "http": ("baton/workers/cloud/child/http_client.py", "_send", lambda values: True),
    **{name: TOKEN[name] for name in ("child", "arrival", "event", "output")},
}
DOWNLOAD: dict[str, Place] = {
    "look": ("baton/ipc/messages.py", "encode", _sends("files")),
    "offers": ("baton/ipc/messages.py", "encode", _sends("offers")),
    "fetch": ("baton/ipc/messages.py", "encode", _sends("fetch")),
    "bytes": ("baton/download/child/partial_file.py", "append", lambda values: True),
    "hash": ("baton/ipc/messages.py", "encode", _sends("hash")),
    "hashed": ("baton/ipc/process.py", "put", _sends("hash")),
    "record": ("baton/models/store/model_store.py", "save", lambda values: True),
    "settings": ("baton/platform/durable_files.py", "replace_file", lambda values: True),
}
"""Where the stacks are taken: a file, a function, and whether its arguments are meant."""


def trace(out: Path) -> None:
    """Log the stacks of this process at those places."""
    import threading

    places = {**TOKEN, **ROUTE, **CLOUD, **DOWNLOAD}
    functions = {function for _, function, _ in places.values()}

    def look(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name not in functions:
            return
        for name, (file, function, is_meant) in places.items():
            is_here = code.co_name == function and code.co_filename.endswith(file)
            if is_here and is_meant(frame.f_locals):
                with out.open("a", encoding="utf-8") as log:
                    log.write(json.dumps([name, list(_stack(frame))]) + "\n")
                if name == "estimate":
                    time.sleep(2)  # traced, the router starts too slowly

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
    """Run both prompts, pull the model, and return what was counted."""
    from support.fake_cloud import Cloud
    from support.fake_hub import Hub
    from support.sample_models import tiny

    seen = _stacks("ask", "--max-tokens=8", PROMPT)
    # The router is waited for, too.
    seen = [(name, stack) for name, stack in seen if name != "waiting" or _is_metered(stack)]
    listening = next(stack for name, stack in seen if name == "listening")
    waiting = next(stack for name, stack in seen if name == "waiting")
    resumed = [item for stack in (listening, waiting) for item in stack if item[2]]
    with Cloud() as cloud:
        config = CLOUD_WORKER.format(address=cloud.base("openai"))
        call = _stacks("ask", "-m", "gpt", "--budget=1", PROMPT, config=config)
    with Hub() as hub:
        hub.add(MODEL, {"Tiny-Q8_0.gguf": tiny(60_000)})
        pull = _stacks("models", "pull", f"hf.co/{MODEL}", "--role=coder", environ=hub.environ)
    return {
        **_counted("token", seen, TOKEN),
        "async_generators": len(resumed),
        **_counted("routing", seen, ROUTE),
        "routing_questions": sum(name == "estimate" for name, _ in seen),
        **_counted("cloud", call, CLOUD),
        **_counted("download", pull, DOWNLOAD),
    }


def _is_metered(stack: Stack) -> bool:
    return any("MeteredWorker" in function for _, function, _ in stack)


def _stacks(
    *command: str, config: str = "", environ: Mapping[str, str] = {}
) -> list[tuple[str, Stack]]:
    """Run a command of Baton in a home of its own; return the stacks at the places it passed."""
    with tempfile.TemporaryDirectory() as folder:
        home, out, hook = (Path(folder) / name for name in ("home", "stacks", "hook"))
        hook.mkdir()
        (hook / "sitecustomize.py").write_text(
            f"import sys\nsys.path += {[str(ROOT / name) for name in ('scripts', 'tests')]}\n"
            "import pathlib, count_hops\n"
            f"count_hops.trace(pathlib.Path({str(out)!r}))\n",
            "utf-8",
        )
        (home / "config").mkdir(parents=True)
        (home / "config" / "config.toml").write_text(config, "utf-8")
        environ = {**os.environ, **environ, "BATON_HOME": str(home), "OPENAI_API_KEY": "k" * 20}
        subprocess.run(
            [sys.executable, "-P", "-m", "baton", *command],
            env={**environ, "PYTHONPATH": str(hook)},
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
        )
        seen = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    return [
        (name, [(file, function, kind) for file, function, kind in stack]) for name, stack in seen
    ]


def _counted(flow: str, seen: list[tuple[str, Stack]], places: Iterable[str]) -> dict[str, Any]:
    first: dict[str, Stack] = {}
    for name, stack in seen:
        first.setdefault(name, stack)
    if missing := set(places) - set(first):
        raise SystemExit(f"The way of {flow} doesn't pass {', '.join(sorted(missing))} any more.")
    way = dict.fromkeys(item for place in places for item in reversed(first[place]))
    return {
        f"{flow}_hops": len(way),
        f"{flow}_files": len({file for file, _, _ in way}),
        flow: [f"{file}: {function}" for file, function, _ in way],
    }


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
