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
    help="Who answers: a worker's id (`baton workers ls`), a GGUF file, or openai/gpt-5-mini.",
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
offline_option = click.option(
    "--offline", is_flag=True, help="Connect to nothing but this machine."
)


def with_worker(settings: Settings, worker: str | None) -> tuple[Settings, str | None]:
    """Return the id of what -m named, and settings that know it.

    A GGUF file becomes a worker, and so does a provider's model ("openai/gpt-5-mini").
    """
    is_file = worker is not None and worker.lower().endswith(".gguf")
    if not worker or not (is_file or os.sep in worker or "/" in worker):
        return settings, worker
    if any(entry.id == worker for entry in settings.roster):
        return settings, worker
    import msgspec

    from baton.secrets import PROVIDERS
    from baton.settings import CloudWorker, LocalWorker, Worker

    if not is_file and worker.partition("/")[0] in PROVIDERS:
        adhoc: Worker = CloudWorker(id=worker, model=worker)
    else:
        file = Path(worker).expanduser().absolute()
        adhoc = LocalWorker(id=file.stem, model=str(file))
    return msgspec.structs.replace(settings, workers=(*settings.workers, adhoc)), adhoc.id
