"""Starts the child processes of an `ask` before anything else is imported."""

from __future__ import annotations

from collections.abc import Sequence

from baton.core.errors import BatonError
from baton.core.reading.bare_expressions import is_computable
from baton.ipc.process import MODEL_FOLDER, SINGLE_THREAD_VARIABLES, command, environment
from baton.ipc.spare_process import start_spare
from baton.platform.settings import LocalWorkerSettings, find_paths, load_settings

_OTHER_WORKERS = ("-m", "--worker", "-h", "--help")
"""Options with which another worker answers than the settings', or none."""


def start_children(words: Sequence[str]) -> None:
    """Start what an `ask` with these words likely needs; the command itself reports any error.

    It takes them up where it needs just these, and else ends them.
    """
    if not words or any(word.startswith(_OTHER_WORKERS) for word in words):
        return
    try:
        paths = find_paths()
        settings = load_settings(paths.config_file)
    except BatonError:
        return
    is_lent = settings.daemon and "--no-daemon" not in words and paths.has_lender
    if is_lent or (settings.tools and any(map(is_computable, words))):
        return
    named = (entry for entry in settings.roster if entry.id == settings.worker)
    environ = environment()
    if all(isinstance(entry, LocalWorkerSettings) for entry in named):
        start_spare(command("runner"), environ, MODEL_FOLDER)
    start_spare(command("scorer"), {**environ, **SINGLE_THREAD_VARIABLES}, MODEL_FOLDER)
