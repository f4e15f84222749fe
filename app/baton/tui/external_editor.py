"""Writing a prompt or a plan in the person's own editor."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping
from pathlib import Path

from baton.core.errors import ConfigError
from baton.platform.durable_files import create_file
from baton.platform.os_signals import run_in_foreground
from baton.platform.settings import keyless_environ


def edit_text(
    text: str, name: str = "prompt.md", environ: Mapping[str, str] = os.environ
) -> str | None:
    """Open the text in $VISUAL or $EDITOR and return what was saved. Raises ConfigError.

    None means that the person left it unchanged or empty: nothing follows from it. The file's
    `name` shows the editor what it is.
    """
    named = environ.get("VISUAL", "").strip() or environ.get("EDITOR", "").strip() or "vi"
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise ConfigError(f"The editor {named!r} has a quote too few.", "Set $EDITOR.") from error
    with tempfile.TemporaryDirectory(prefix="baton-") as folder:  # 0700
        path = Path(folder, name)
        create_file(path, text)
        try:
            code = run_in_foreground([*command, str(path)], keyless_environ())
        except OSError as error:
            raise ConfigError(
                f"The editor {command[0]!r} can't be started: {error.strerror}.", "Set $EDITOR."
            ) from error
        if code != 0:
            raise ConfigError(f"The editor ended with code {code}; the text is as it was.")
        try:
            saved = path.read_text("utf-8", "replace").removesuffix("\n")
        except OSError as error:
            raise ConfigError(
                f"The editor left no file to read: {error.strerror}; the text is as it was."
            ) from error
    return saved if saved.strip() and saved != text.removesuffix("\n") else None
