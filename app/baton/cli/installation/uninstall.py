"""`baton self uninstall`: what is removed, and what stays."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import click

from baton.cli import interrupts
from baton.cli.models.terminal_dialog import ask_agreement
from baton.cli.options import json_object_option, yes_option
from baton.cli.output import emit_document, notify, require_terminal
from baton.cli.prompt_run import read_line
from baton.core.errors import BatonError
from baton.core.machine import show_size
from baton.core.sanitiser import one_line
from baton.install import InstalledFiles, RemovableFiles, own_files, own_installation
from baton.platform import secrets
from baton.platform.paths import Paths, find_paths
from baton.platform.settings import LocalWorkerSettings, load_settings
from baton.presentation.words import count_text

if TYPE_CHECKING:
    from baton.platform.secrets import Key

_Choice = Literal["keep", "remove"]
_CHOICES = click.Choice(["keep", "remove"])

_EXAMPLES = """\b
Examples:
  baton self uninstall                        lists what there is, and asks
  baton self uninstall --yes                  keeps models, history and keys
  baton self uninstall --models remove --history remove --keys remove --yes

Models of other programs that were linked stay where they are, and so does everything else
that is not Baton's. It works while a Baton runs; what that one runs from stays.
"""


@dataclass(frozen=True, slots=True)
class _Choices:
    """What happens to the user's files; None: Baton asks."""

    models: _Choice | None
    history: _Choice | None
    keys: _Choice | None


@click.command(epilog=_EXAMPLES, short_help="Uninstall Baton.")
@click.option(
    "--models", type=_CHOICES, help="What to do with the models that were fetched. [keep]"
)
@click.option(
    "--history",
    type=_CHOICES,
    help="What to do with conversations, ledger and settings. [keep]",
)
@click.option("--keys", type=_CHOICES, help="What to do with the providers' keys. [keep]")
@yes_option
@json_object_option
def uninstall(
    models: _Choice | None, history: _Choice | None, keys: _Choice | None, yes: bool, as_json: bool
) -> None:
    """Uninstall the program and all that was installed with it.

    It first lists what there is. Models, history and keys stay unless you say otherwise.
    """
    from baton.compose import background

    interrupts.restore_default_handler()
    paths = find_paths()
    choices = _Choices(models, history, keys)
    removal = _Removal(paths, own_files(paths))
    if not yes:
        hint = "--yes removes the program; --models and --history say what happens to yours."
        require_terminal("Nothing was removed", hint)
    notify("\n".join(removal.listed()))
    if not yes:
        choices = asyncio.run(_ask_choices(removal, choices))
        if not asyncio.run(ask_agreement("Uninstall Baton?")):
            raise click.exceptions.Exit(1)
    background.stop(paths)
    with own_installation(paths).hold_lock():
        freed = removal.remove(choices)
    import json  # noqa: F401  (nothing can be imported from what is deleted now)

    stays = [*removal.stays, *removal.belongings.remove_unpacked()]
    left = removal.belongings.remove_empty_folders()
    if as_json:
        stays = [*stays, *map(str, left)]
        return emit_document(status="finished", freed_bytes=freed, stays=stays)
    for line in (*stays, *(f"{folder} stays: it isn't empty." for folder in left)):
        notify(one_line(line, 400))
    notify(f"Baton is uninstalled, which frees {show_size(freed)}.")


class _Removal:
    """The files that there are, and their removal."""

    def __init__(self, paths: Paths, belongings: InstalledFiles) -> None:
        from baton.models import FolderModelStore

        self.belongings = belongings
        self.stays: list[str] = []
        self._paths = paths
        self._store = FolderModelStore(paths.models)
        self._program, self._unpacked = belongings.program(), belongings.unpacked()
        self.history = belongings.history()
        self.models = self._store.models()
        self.models_size = sum(held.bytes for held in self.models)
        self.keys = _stored_keys(paths)

    def listed(self) -> list[str]:
        """Return a line for each thing there is."""
        lines = ["This goes:"]
        for thing in (self._program, self._unpacked):
            lines += [f"  {thing.name}  {show_size(thing.size)}"]
            lines += [f"    {one_line(str(path), 300)}" for path in thing.paths]
        if yours := self._yours():
            lines += ["This is yours, and stays unless you say otherwise:", *yours]
        return lines

    def _yours(self) -> list[str]:
        lines = []
        if self.models:
            linked = sum(1 for held in self.models if held.record.link)
            lines.append(
                f"  {count_text(len(self.models), 'model')}  {show_size(self.models_size)}"
                f"  {self._paths.models}"
                + (f" ({linked} linked, whose files stay in any case)" if linked else "")
            )
        if self.history.paths:
            lines.append(f"  {self.history.name}  {show_size(self.history.size)}")
            folders = dict.fromkeys(path.parent for path in self.history.paths)
            lines += [f"    {one_line(str(folder), 300)}" for folder in folders]
        if self.keys:
            lines.append(f"  {count_text(len(self.keys), 'key')}  {', '.join(self.keys)}")
        return lines

    def remove(self, choices: _Choices) -> int:
        """Remove what goes, the program last; return the bytes freed."""
        freed = 0
        self.stays += self.belongings.foreign_program_notes()
        if choices.keys == "remove":
            self._remove_keys()
        elif self.keys:
            where = " and ".join(dict.fromkeys(key.source for key in self.keys.values()))
            self.stays.append(f"The keys for {', '.join(self.keys)} stay in the {where}.")
        if choices.models == "remove":
            freed += self._remove_models()
        if choices.history == "remove":
            freed += self._remove(self.history)
        # What was unpacked goes after all else, as this program runs from it; it counts here.
        return freed + self._remove(self._program) + self._unpacked.size

    def _remove(self, thing: RemovableFiles) -> int:
        self.stays += self.belongings.remove(thing)
        return thing.size

    def _remove_models(self) -> int:
        freed = 0
        for held in self.models:
            try:
                freed += self._store.remove(held.id)
            except BatonError as error:
                self.stays.append(error.message)
        for path in self._store.orphans():
            try:
                freed += self._store.discard(path)
            except BatonError as error:
                self.stays.append(error.message)
        self.stays += self._store.problems()
        return freed

    def _remove_keys(self) -> None:
        for name in self.keys:
            try:
                secrets.remove_key(name, file=self._paths.keys_file)
            except BatonError as error:
                self.stays.append(str(error))


def _stored_keys(paths: Paths) -> Mapping[str, Key]:
    """Return the keys that Baton keeps, in the keyring or as plain text, by provider or worker."""
    names = list(secrets.PROVIDERS)
    try:
        for worker in load_settings(paths.config_file).roster:
            if not isinstance(worker, LocalWorkerSettings) and worker.api_key_env:
                names.append(worker.api_key_env)
        return secrets.find_keys(names, file=paths.keys_file, environ={})
    except BatonError:  # settings or keys that can't be read: `baton doctor` reports them
        return {}


async def _ask_choices(removal: _Removal, choices: _Choices) -> _Choices:
    """Ask for the choices that weren't given; Enter alone keeps."""
    if removal.models and choices.models is None:
        size = show_size(removal.models_size)
        choices = replace(choices, models=await _ask_choice(f"Your models ({size})"))
    if removal.history.paths and choices.history is None:
        size = show_size(removal.history.size)
        choices = replace(
            choices, history=await _ask_choice(f"Your history, ledger and settings ({size})")
        )
    if removal.keys and choices.keys is None:
        choices = replace(choices, keys=await _ask_choice(f"Your keys ({len(removal.keys)})"))
    return choices


async def _ask_choice(what: str) -> _Choice:
    import sys

    print(f"{what}: keep or remove? [K/r]: ", end="", file=sys.stderr, flush=True)
    typed = (await read_line()).strip().lower()
    return "remove" if typed in ("r", "remove") else "keep"
