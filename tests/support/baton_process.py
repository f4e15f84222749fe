"""A whole Baton that runs prompts: `python -m support.baton_process --calls JSON --frames FILE`.

`--calls` lists [worker, fault or null]. Events and errors go to stdout, every frame that crosses
the pipes to and from its children to the file. Before it ends it prints `done` and waits for a line
on stdin, so that it and its children can be looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any, BinaryIO

from baton.compose import Baton, compose
from baton.core.messages import Prompt
from baton.core.permissions import PromptLimits
from baton.ipc import messages
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings


def log_frames(file: Path) -> None:
    """Write down every frame, with the bytes in it that are encoded as text."""
    read, encode = messages.read, messages.encode
    out = file.open("a", encoding="utf-8")

    def note(message: messages.Message) -> None:
        body: bytes = getattr(message, "body", b"")
        out.write(f"{message!r} {body.decode('utf-8', 'replace')}\n")
        out.flush()

    def noted_read(stream: BinaryIO, decoder: messages.Decoder) -> Any:
        message = read(stream, decoder)
        if message is not None:
            note(message)
        return message

    def noted_encode(message: messages.Message) -> bytes:
        note(message)
        return encode(message)

    messages.read, messages.encode = noted_read, noted_encode


async def execute(baton: Baton, worker: str, fault: str | None, number: int) -> None:
    """Run one prompt, and print all that front ends would hear of it."""
    wish = f" fault={fault}." if fault else ""
    prompt = Prompt(f"Question {number} for {worker}.{wish}")
    limits = PromptLimits(max_tokens=300, budget=10**9, attended=False, alone=True)
    async with baton.orchestra.run(prompt, limits=limits, worker=worker) as run:
        async for event in run:
            print(repr(event))


async def main(calls: list[Any]) -> None:
    paths = find_paths()
    baton = compose(load_settings(paths.config_file), paths)
    baton.orchestra.worker("small").warm()
    try:
        for number, (worker, fault) in enumerate(calls):
            await execute(baton, worker, fault, number)
        print("done", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
    finally:
        await baton.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", required=True)
    parser.add_argument("--frames", type=Path, required=True)
    given = parser.parse_args()
    log_frames(given.frames)
    asyncio.run(main(json.loads(given.calls)))
