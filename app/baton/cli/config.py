"""`baton config`: where the settings are, what is in force and why, and a way to change them."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from baton.cli.options import AliasedGroup
from baton.cli.output import emit, emit_document, notify
from baton.core.errors import ConfigError
from baton.core.ledger_types import Scope
from baton.core.sanitiser import sanitise
from baton.platform.durable_files import create_file, make_folder, read_ordinary
from baton.platform.paths import find_paths
from baton.platform.processes import run_in_foreground
from baton.platform.settings import Settings, keyless_environ, load_settings, replace_settings_text
from baton.platform.settings_sources import MAX_FILE_BYTES, read_file

if TYPE_CHECKING:
    from baton.money import Ledger

TEMPLATE = """\
# Baton's settings. A line without the leading # is in force; `baton config show` lists all of them.

# mode = "auto"               # auto, local, mini, ultra
# offline = false
# worker = "small"            # who answers unless -m says otherwise
# conductor = ""              # who plans: a worker's id; "rule": no model; "": Baton's own

# [prefer]                    # who takes tasks of a kind, where it may: code = "mine"

# [local]                     # how models on this machine run
# threads = 0                 # 0: one for each physical core
# gpu_layers = -1             # -1: as many as fit
# context = 8192              # tokens
# kv = "f16"                  # "q8_0": the context takes half the memory, a little less exact
# memory_gb = 0               # for all loaded models; 0: four fifths of this machine's
# idle_minutes = 10           # unload a model after that long; 0: never
# slots = 2                   # how many requests a model answers at once

# [serve]                     # for other programs: `baton serve`, and /serve in the app
# allow_hosts = []            # host names under which they may ask: ["host.docker.internal"]
# allow_origins = []          # origins whose pages may ask: ["http://localhost:3000"]

# [serve.aliases]             # other names of models, * for any text: "claude-*" = "baton/auto"

# [screen]
# theme = "dark"              # or light, high-contrast, nord ...: /theme in the app shows them
# mouse = true                # false leaves selecting to the terminal
# plain = false               # true: line by line, for screen readers

# [budget]                    # US dollars, 2 or "2"; cloud stays off until one is above 0
# session = ""                # one conversation; "": no limit of its own
# day = ""
# month = ""
# policy = "ask"              # ask, once (per conversation), budget (without asking), never

# wait = 30                   # seconds that a call waits for money that other prompts hold

# [cloud]
# redact = true               # hide keys, addresses and numbers before anything leaves
# words = []                  # your own words to hide as well: ["Project Heron"]
# effort = "low"              # how much a model may think: none, low, medium, high
# proxy = ""                  # "http://proxy:3128"; "": HTTPS_PROXY, if that is set

# [[workers]]                 # one more worker; the same id replaces
# id = "mine"
# kind = "local"              # on this machine
# model = "~/models/some-model.gguf"
# temperature = 0.7           # and top_p, top_k, min_p, repeat_penalty, seed: how it picks words
# thinking = true             # thoughts before each answer; false: none; unset: if it must
# adapter = "~/models/sql-lora.gguf"        # a LoRA adapter, put on the model
# adapter_scale = 1.0         # how strongly
# kv = "q8_0"                 # as in [local], for this worker
# force = true                # load it however little memory is free

# [[workers]]
# id = "gpt"
# kind = "cloud"              # costs money; its key: `baton keys set openai`
# model = "openai/gpt-5-mini" # provider/model; `baton budget prices --all` lists those it knows
# price = { input = "0.25", output = "2" }    # US dollars per million tokens, if it isn't listed

# [[workers]]
# id = "lab"
# kind = "server"             # any OpenAI-compatible engine
# model = "qwen3-32b"
# base_url = "http://127.0.0.1:8000/v1"   # or a list of addresses of the same model
# privacy = "local"           # local, lan, cloud: which texts it may see
"""


_EDITOR_HINT = "Set EDITOR, for example EDITOR=nano."


class Setting(NamedTuple):
    """One setting in force, and where it comes from: default, file or environment."""

    path: tuple[str, ...]
    value: Any
    source: str


@click.group(cls=AliasedGroup)
def config() -> None:
    """Show and edit the settings.

    Defaults are overruled by config.toml, that by the environment (BATON_LOCAL__THREADS=2), and
    that by what is typed.
    """


@config.command()
@click.option("--all", "every", is_flag=True, help="Print the folders as well, one a line.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: config.toml and the folders.")
def path(every: bool, as_json: bool) -> None:
    """Print where config.toml is (or would be).

    --all adds the folders: data (your conversations), state (crash reports) and cache.
    """
    paths = find_paths()
    places = {
        "config": str(paths.config_file),
        "data": str(paths.data),
        "state": str(paths.state),
        "cache": str(paths.cache),
    }
    if as_json:
        emit_document(**places)
    elif every:
        emit("\n".join(f"{name}  {place}" for name, place in places.items()))
    else:
        emit(places["config"])


@config.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(as_json: bool) -> None:
    """Print the settings in force, and where each comes from.

    Where config.toml is wrong, print its text with numbered lines, and what is wrong.
    """
    file = find_paths().config_file
    try:
        listed = list(setting_sources(load_settings(file), file, os.environ))
    except ConfigError:
        if not as_json:
            _print_numbered(file)
        raise
    if as_json:
        rows = [{"setting": ".".join(s.path), "value": s.value, "source": s.source} for s in listed]
        return emit_document(settings=rows)
    emit(settings_toml(listed))


def _print_numbered(file: Path) -> None:
    """Print a file as it is, cleaned, each line with its number."""
    with suppress(OSError):
        text = read_ordinary(file, MAX_FILE_BYTES).decode("utf-8", "replace")
        lines = sanitise(text).splitlines()
        emit("\n".join(f"{number:4}  {line}" for number, line in enumerate(lines, start=1)))


@config.command()
def edit() -> None:
    """Open config.toml in $EDITOR, then check it. Ceilings hold for running Batons at once."""
    file = find_paths().config_file
    _create_file(file)
    command = _editor_command()
    try:
        before = read_ordinary(file, MAX_FILE_BYTES)
        # A copy: an editor would write over what another command changes meanwhile.
        folder = Path(tempfile.mkdtemp(prefix="edit-", dir=file.parent))  # 0700
        copy = folder / file.name
        create_file(copy, before)
    except OSError as error:
        what = f"{file} can't be edited: {error.strerror}."
        raise ConfigError(what, "Check its owner.") from error
    ceilings: Mapping[Scope, int] = {}
    with suppress(ConfigError):
        ceilings = load_settings(copy, {}).budget.ceilings
    code = run_in_foreground([*command, str(copy)], keyless_environ())
    saved = copy.read_bytes() if copy.is_file() else b""
    if code or not saved.strip():
        shutil.rmtree(folder)
        what = "ended with an error" if code else "left an empty file"
        raise ConfigError(f"The editor {what}; the settings are as they were.")
    if saved != before and not replace_settings_text(file, before, saved):
        raise ConfigError(
            f"{file} was changed by another program while the editor was open, so it is as that "
            "program left it.",
            f"Your text is kept in {copy}; make your changes again with `baton config edit`.",
        )
    shutil.rmtree(folder)
    try:
        edited = load_settings(file, {}).budget.ceilings
    except ConfigError as error:
        hint = f"{error.hint} Your text is kept in {file}; `baton config edit` opens it again."
        raise ConfigError(error.message, hint.strip()) from error
    if saved != before:
        changed = {scope: edited.get(scope) for scope in Scope}
        _set_ceilings({s: amount for s, amount in changed.items() if amount != ceilings.get(s)})
    notify("The settings are fine.")


def _set_ceilings(changes: Mapping[Scope, int | None]) -> None:
    """Have other Batons that run keep to new ceilings, as `baton budget set` does."""
    if not changes:
        return
    from baton.cli.stores import with_ledger

    async def change(ledger: Ledger) -> None:
        for scope, amount in changes.items():
            await ledger.set_ceiling(scope, amount)

    with_ledger(change)


def setting_sources(
    settings: Settings, file: Path, environ: Mapping[str, str]
) -> Iterator[Setting]:
    """Yield every setting in force with its source; `settings` was loaded from these."""
    typed = read_file(file)
    for where, value in _leaf_values(msgspec.to_builtins(settings), ()):
        variable = "BATON_" + "__".join(where).upper()
        source = "default"
        if typed.has(where):
            source = "config.toml"
        if environ.get(variable) and (where != ("offline",) or not typed.tree.get("offline")):
            source = variable
        yield Setting(where, value, source)


def settings_toml(settings: list[Setting]) -> str:
    """Write settings as TOML, each with its source as a comment."""
    import tomlkit

    lines: list[str] = []
    table: tuple[str, ...] = ()
    for where, value, source in settings:
        if where == ("workers",):
            continue
        if where[:-1] != table:
            table = where[:-1]
            lines += ["", f"[{'.'.join(table)}]"]
        lines.append(
            f"{tomlkit.key(where[-1]).as_string()} = {_toml_value(value)}".ljust(32) + f"# {source}"
        )
    workers = next((s for s in settings if s.path == ("workers",)), None)
    for worker in workers.value if workers else ():
        lines += ["", "[[workers]]"]
        lines += [
            f"{key} = {_toml_value(value)}" for key, value in worker.items() if value is not None
        ]
    return "\n".join(lines)


def _leaf_values(
    tree: dict[str, Any], where: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Any]]:
    nested = []
    for key, value in tree.items():
        if isinstance(value, dict):
            nested.append((key, value))
        else:
            yield (*where, key), value
    for key, value in nested:
        yield from _leaf_values(value, (*where, key))


def _toml_value(value: Any) -> str:
    import tomlkit

    if isinstance(value, Mapping):
        table = tomlkit.inline_table()
        table.update({key: item for key, item in value.items() if item is not None})
        return table.as_string()
    return str(tomlkit.item(value).as_string())


def _create_file(file: Path) -> None:
    try:
        make_folder(file.parent)
        create_file(file, TEMPLATE)
    except FileExistsError:
        return
    except OSError as error:
        raise ConfigError(f"{file} can't be made: {error.strerror}.", "Check its owner.") from error


def _editor_command() -> list[str]:
    named = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    try:
        command = shlex.split(named)
    except ValueError as error:
        raise ConfigError(f"The editor {named!r} has an unclosed quote.", _EDITOR_HINT) from error
    for fallback in () if command else ("nano", "vi"):
        if shutil.which(fallback):
            return [fallback]
    if not command or not shutil.which(command[0]):
        what = f"The editor {command[0]!r} is not there." if command else "No editor was found."
        raise ConfigError(what, _EDITOR_HINT)
    return command
