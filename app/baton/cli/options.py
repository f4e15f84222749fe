"""The options that `baton ask` and the app share, and what they come to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from baton.cli.completion import complete_conversation, complete_worker

if TYPE_CHECKING:
    from baton.settings import Settings

LATEST = "latest"
"""What -c alone stands for."""

worker_option = click.option(
    "-m",
    "--worker",
    metavar="ID",
    shell_complete=complete_worker,
    help="Who answers: a worker's id (`baton workers ls`) or a GGUF file.",
)
continue_option = click.option(
    "-c",
    "--continue",
    "conversation",
    metavar="[CONVERSATION]",
    is_flag=False,
    flag_value=LATEST,
    shell_complete=complete_conversation,
    help="Go on with a conversation: the latest one, or the one with that id.",
)
offline_option = click.option("--offline", is_flag=True, help="Connect nowhere.")


def with_worker(settings: Settings, worker: str | None) -> tuple[Settings, str | None]:
    """Return the id of what -m named, and settings that know it: a GGUF file becomes a worker."""
    if not worker or not (worker.lower().endswith(".gguf") or os.sep in worker):
        return settings, worker
    import msgspec

    from baton.settings import LocalWorker

    file = Path(worker).expanduser().absolute()
    adhoc = LocalWorker(id=file.stem, model=str(file))
    return msgspec.structs.replace(settings, workers=(*settings.workers, adhoc)), adhoc.id
