"""The inventory of Baton: what people and scripts rely on, collected from the code.

    python tests/inventory/collect.py            compares, and prints a diff
    python tests/inventory/collect.py --write    rewrites the files in `data`
    python tests/inventory/collect.py --write commands.json events.json

All imports of the product stand here, so that a move of its modules changes this file only.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import pkgutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [folder for name in ("tests", "app") if (folder := str(ROOT / name)) not in sys.path]

import msgspec
from textual.dom import DOMNode

import baton
import baton.tui as screen_package
from baton import compose as composition
from baton.cli import INTERRUPTED, exit_codes
from baton.cli.json_output import run_object
from baton.cli.options import ALIASES
from baton.cli.root import baton as root_command, run as main
from baton.compose.local_workers import LocalWorkers
from baton.compose.remote_workers import RemoteWorkers
from baton.core import (
    catalogue_types as catalogue,
    errors,
    events,
    history_types,
    labels,
    ledger_types,
    messages,
    plan_types as plan,
)
from baton.core.permissions import RunTerms
from baton.core.run.orchestra import Orchestra
from baton.core.run.run_context import Services
from baton.core.strategies import STRATEGIES, strategy_of_mode
from baton.core.view import RunView
from baton.history import Store
from baton.history.rows import decode_event, encode_json
from baton.money import Ledger
from baton.platform import sqlite
from baton.platform.paths import Paths, find_paths
from baton.platform.secrets import PROVIDERS
from baton.platform.settings import (
    MODES,
    WORKER_KINDS,
    Effort,
    Kv,
    Settings,
    ThemeName,
    ignored_variables,
    load_settings,
)
from baton.tui.key_bindings import GROUPS
from baton.tui.menu_entries import ACTIONS as MENU_ACTIONS
from baton.tui.slash_commands import COMMANDS as SLASH_COMMANDS
from baton.workers.scripted_worker import Script, ScriptedWorker, echo_script
from baton.workers.template_files import read_templates
from baton.workers.tools import worker as tools
from inventory import command_lists, description
from inventory.command_run import (
    empty_home,
    output_records,
    put_data,
    replace_everywhere,
    value_records,
)
from support.app_session import open_app
from support.stored_runs import EVENTS, PLAN

DATA = Path(__file__).with_name("data")
OLD = Path(__file__).with_name("old")

NAMES: dict[str, Iterable[object]] = {
    "task kind": plan.KINDS,
    "worker kind": WORKER_KINDS,
    "model role": catalogue.ModelRole,
    "message role": messages.Role,
    "call purpose": messages.Purpose,
    "answer end": messages.Finish,
    "turn status": messages.TurnStatus,
    "label": labels.Label,
    "spending policy": ledger_types.Policy,
    "spending pace": ledger_types.SpendingStyle,
    "money scope": ledger_types.Scope,
    "charge status": ledger_types.Status,
    "signal": history_types.Signal,
    "phase": events.Phase,
    "decision": events.Decision,
    "verdict": events.Verdict,
    "effort": get_args(Effort),
    "theme": get_args(ThemeName),
    "kv": get_args(Kv),
}

EXAMPLES = {plan.Plan: PLAN}


def commands_json(_: Path) -> str:
    """Return every command with its parameters."""
    return description.lines(description.command_records(root_command, ["baton"], ALIASES))


def settings_json(_: Path) -> str:
    """Return every settings key with its type, its default and its variable."""

    def records() -> Iterator[dict[str, Any]]:
        for record in description.setting_records(Settings, tagged=WORKER_KINDS):
            key = record["key"]
            if "[" in key:
                yield record
                continue
            is_table = record["type"].startswith("{")
            name = f"BATON_{key.replace('.', '__').upper()}" + ("__CHAT" if is_table else "")
            yield record | {"variable": None if ignored_variables({name: "1"}) else name}

    return description.lines(records())


def bindings_json(_: Path) -> str:
    """Return every key binding of the app, and which work in the same place."""
    for module in pkgutil.walk_packages(screen_package.__path__, f"{screen_package.__name__}."):
        import_module(module.name)
    bound = description.own_bindings(DOMNode, baton.__name__)
    places = [description.binding_records(bindings) for bindings in bound]
    unique = {json.dumps(record): record for place in places for record in place}
    ids = sorted([record["id"] for record in place] for place in places)
    groups = [(name, description.binding_records(group)) for name, group in GROUPS.items()]
    return description.lines(
        [
            *(unique[key] for key in sorted(unique)),
            *({"together": one} for one in ids),
            *({"help group": name, "ids": [one["id"] for one in group]} for name, group in groups),
        ]
    )


def screen_commands_json(folder: Path) -> str:
    """Return the slash commands, what else the menu has, and the keys of the first screen."""

    async def opened() -> list[dict[str, Any]]:
        async with open_app(folder) as session:
            active = session.app.screen.active_bindings.values()
            keys = sorted(
                (one.binding.id, one.binding.key, one.binding.action)
                for one in active
                if one.binding.id is not None and one.enabled
            )
            return [{"active at the start": list(key)} for key in keys]

    slashes = [
        {
            "slash": one.name,
            "action": one.action,
            "argument": one.argument,
            "may_have_lines": one.is_multiline,
            "may_spend": one.may_spend,
        }
        for one in SLASH_COMMANDS
    ]
    actions = [
        {"menu": one.name, "action": one.action, "may_spend": one.may_spend} for one in MENU_ACTIONS
    ]
    return description.lines([*slashes, *actions, *asyncio.run(opened())])


def events_json(_: Path) -> str:
    """Return every event with its fields, and its stored form with all and with few fields."""

    def records() -> Iterator[dict[str, Any]]:
        for kind in get_args(events.Event):
            name = kind.__name__
            given = description.hints(kind)
            yield {
                "event": name,
                "transient": kind in events.TRANSIENT,
                "terminal": kind in events.TERMINAL,
            }
            defaults = {one.name: description.field_default(one) for one in fields(kind)}
            for field, annotation in given.items():
                record = {"event": name, "field": field, "type": description.type_text(annotation)}
                yield record | {"default": defaults[field]}
            required = {f: given[f] for f, default in defaults.items() if default == "(required)"}
            for chosen in (given, required):
                event = kind(**{f: description.example(k, EXAMPLES) for f, k in chosen.items()})
                stored = encode_json(event)
                assert decode_event(name, stored) == event, f"{name} is read back as it was written"
                yield {"event": name, "stored": stored}

    return description.lines(records())


def errors_json(_: Path) -> str:
    """Return every error with its exit code, its kind, and whether events and JSON name it."""

    def below(kind: type[errors.BatonError]) -> Iterator[type[errors.BatonError]]:
        yield kind
        for child in kind.__subclasses__():
            yield from below(child)

    public = [kind for kind in below(errors.BatonError) if kind.__module__ == errors.__name__]
    known = {kind.__name__: kind for kind in public}
    others = description.classes_below(known, Path(baton.__file__).parent.rglob("*.py"))
    return description.lines(
        [
            *(
                {
                    "error": name,
                    "exit_code": exit_codes.exit_code(kind),
                    "is_a": [one.__name__ for one in kind.__mro__[1:] if one in public],
                    "by_name": errors.ERROR_CLASSES.get(name) is kind,
                }
                for name, kind in sorted(known.items())
            ),
            *({"error": name, "is_a": base} for name, base in others),
            {"interrupted": INTERRUPTED},
        ]
    )


def names_json(_: Path) -> str:
    """Return the names that people choose from and that databases hold."""
    cards = (tools.CALCULATOR, tools.UNITS, tools.CLOCK, tools.PYTHON)
    providers = ((one.name, one.variables, one.base_url) for one in PROVIDERS.values())
    return description.lines(
        [
            *({"template": name} for name in sorted(read_templates())),
            *({"strategy": name} for name in STRATEGIES),
            *({"mode": mode, "strategy": strategy_of_mode(mode)} for mode in MODES),
            *({"tool": one.id, "name": one.name} for one in cards),
            *({"provider": n, "variables": list(v), "address": a} for n, v, a in providers),
            *({kind: str(name)} for kind, names in NAMES.items() for name in names),
        ]
    )


def schemas_json(_: Path) -> str:
    """Return all that is in both databases, as the code makes them."""
    return description.lines(schema_records())


def schema_records() -> list[dict[str, Any]]:
    """Return what is in both databases of this home, which are made or made current."""

    async def make() -> None:
        store, money = Store(paths.database), Ledger(paths.ledger)
        await store.conversations()
        await money.charges()
        await money.aclose()
        await store.aclose()

    paths = find_paths()
    asyncio.run(make())

    records: list[dict[str, Any]] = []
    for file in (paths.database, paths.ledger):
        with closing(sqlite.connect(file)) as connection:
            rows = description.schema_records(connection)
            records += [{"database": file.name, **row} for row in rows]
    return records


def old_settings_json(_: Path) -> str:
    """Return what is read of the committed config.toml, by key, and of the same as variables."""
    settings = load_settings(OLD / "config.toml", {})
    keys = {record["key"] for record in description.setting_records(Settings)} - {"workers"}
    read = dict(description.leaves(msgspec.to_builtins(settings), keys))
    defaults = dict(description.leaves(msgspec.to_builtins(Settings()), keys))
    plain = {key: read[key] for key in keys if isinstance(read[key], str | int | float)}
    variables = {f"BATON_{k.replace('.', '__').upper()}": str(v) for k, v in plain.items()}
    by_variables = load_settings(OLD / "none.toml", variables)
    again = dict(description.leaves(msgspec.to_builtins(by_variables), keys))
    return description.lines(
        [
            *(
                {"key": key, "read": read[key], "is_default": read[key] == defaults[key]}
                | ({"by variable": again[key]} if key in plain else {})
                for key in sorted(keys)
            ),
            *({"worker": entry} for entry in msgspec.to_builtins(settings.workers)),
        ]
    )


@contextmanager
def scripted_workers(**scripts: Script) -> Iterator[None]:
    """Let workers that follow scripts take the place of the real ones; the first is the default."""
    cards = [messages.Card(name, "local", name.title(), context=8192) for name in scripts]
    workers = {card.id: ScriptedWorker(scripts[card.id], card) for card in cards}

    def compose(
        settings: Settings, paths: Paths, *, history: bool = True, **_: object
    ) -> composition.Baton:
        store, money = Store(paths.database if history else None), Ledger(paths.ledger)
        terms = RunTerms(mode=settings.mode, offline=settings.offline)
        orchestra = Orchestra(Services(workers, store, ledger=money), cards[0].id, terms)
        orchestra.configure(templates=read_templates)
        stock = composition.library(settings, paths)
        local = LocalWorkers(settings, stock)
        away = RemoteWorkers(settings, paths, money)
        return composition.Baton(orchestra, store, money, settings, paths, stock, local, away)

    with replace_everywhere(composition.compose, compose, baton.__name__):
        yield


def broken(_: messages.Request) -> Iterator[messages.Chunk | BaseException]:
    """Die after the first words."""
    yield messages.Text("I was ")
    yield errors.WorkerUnavailable("The worker died.", "Ask again.")


def short(_: messages.Request) -> Iterator[messages.Chunk]:
    """Write until the cap."""
    yield messages.Text("A long answer")
    yield messages.Usage(9, 3, messages.Finish.LENGTH)


def silent(_: messages.Request) -> Iterator[messages.Chunk]:
    """Write nothing."""
    yield messages.Usage(9, 0, messages.Finish.EMPTY)


def outputs_empty_json(_: Path) -> str:
    """Return the outputs of commands in an empty home."""
    return description.lines(output_records(main, command_lists.EMPTY))


def outputs_models_json(_: Path) -> str:
    """Return the outputs of commands in an empty home with the starter model."""
    return description.lines(output_records(main, command_lists.MODELS))


def outputs_wrong_json(folder: Path) -> str:
    """Return the outputs of commands that are wrong, each in a home of its own."""

    def records() -> Iterator[dict[str, Any]]:
        for number, line in enumerate(command_lists.WRONG):
            with empty_home(folder / str(number)):
                yield from output_records(main, [line])

    return description.lines(records())


def outputs_scripted_json(_: Path) -> str:
    """Return the outputs of commands whose workers follow scripts."""
    with scripted_workers(small=echo_script, broken=broken, short=short, silent=silent):
        records = [*output_records(main, command_lists.SCRIPTED)]
    view = RunView()
    for event in EVENTS:
        view = view.apply(event)
    for place, kind in description.shape_records([run_object(view)]).items():
        records += [
            {"command": "ask --json, with all kinds of steps", "field": place, "type": kind}
        ]
    return description.lines(records)


def outputs_old_json(_: Path) -> str:
    """Return the outputs of commands on the committed databases."""
    put_data(OLD)
    return description.lines(output_records(main, command_lists.OLD))


def old_values_json(folder: Path) -> str:
    """Return what is read of the committed databases, and how their schemas differ from new ones.

    Reading them makes their schemas current.
    """
    new = schema_records()
    with empty_home(folder / "old"):
        put_data(OLD)
        values = [*value_records(main, command_lists.OLD_VALUES)]
        old = schema_records()
    pairs = (("only of old ones", old, new), ("only of new ones", new, old))
    different = [{name: one} for name, ones, others in pairs for one in ones if one not in others]
    return description.lines([*values, *different])


SECTIONS: dict[str, Callable[[Path], str]] = {
    "commands.json": commands_json,
    "settings.json": settings_json,
    "bindings.json": bindings_json,
    "screen_commands.json": screen_commands_json,
    "events.json": events_json,
    "errors.json": errors_json,
    "names.json": names_json,
    "schemas.json": schemas_json,
    "old_settings.json": old_settings_json,
    "old_values.json": old_values_json,
    "outputs_empty.json": outputs_empty_json,
    "outputs_models.json": outputs_models_json,
    "outputs_wrong.json": outputs_wrong_json,
    "outputs_scripted.json": outputs_scripted_json,
    "outputs_old.json": outputs_old_json,
}
"""What each file of `data` holds; given an empty folder, each returns the file's text."""


def current_text(name: str) -> str:
    """Return what a file holds by the code of now."""
    with (
        tempfile.TemporaryDirectory() as folder,
        empty_home(Path(folder).resolve() / "home") as home,
    ):
        return SECTIONS[name](home)


def difference(name: str) -> str:
    """Return how a file differs from what the code says now, "" if it doesn't."""
    file = DATA / name
    before = file.read_text("utf-8") if file.exists() else ""
    return "".join(
        difflib.unified_diff(
            before.splitlines(keepends=True),
            current_text(name).splitlines(keepends=True),
            f"committed {name}",
            f"{name} by the code",
            n=2,
        )
    )


def write_or_compare() -> int:
    """Do what the command line asks, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="rewrite the files")
    parser.add_argument("files", nargs="*", help="only these", choices=[*SECTIONS, []])
    given = parser.parse_args()
    different = 0
    for name in given.files or SECTIONS:
        if given.write:
            (DATA / name).write_text(current_text(name), "utf-8")
        elif changed := difference(name):
            print(changed)
            different += 1
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(write_or_compare())
