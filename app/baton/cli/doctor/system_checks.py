"""Does everything here work, with this person's settings, files and keys? No secret is told."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from baton import __version__
from baton.cli.doctor.check_result import CheckResult, CheckState
from baton.cli.doctor.gpu_checks import gpu_text, idle_gpu_text
from baton.core.byte_format import show_memory, show_size
from baton.core.errors import BatonError, ConfigError, ModelFileError
from baton.core.machine import Gpu
from baton.core.model_roles import RULE_CONDUCTOR
from baton.core.money import show_usd
from baton.platform import computer
from baton.platform.settings import CloudWorker, LocalWorker, Paths, Settings, load
from baton.platform.terminal import terminal as describe_terminal

_LOW_BYTES = 2**30
"""Bytes of disk below which it is worth a warning."""


def check_system(paths: Paths) -> Iterator[CheckResult]:
    """Check one thing after the other, the quick ones first. A check that fails is a finding."""
    yield _check_python()
    settings = Settings()
    try:
        settings = load(paths.config_file)
        yield CheckResult("settings", CheckState.OK, _settings_text(paths.config_file))
    except ConfigError as error:
        yield CheckResult("settings", CheckState.BROKEN, str(error))
    checks: tuple[tuple[str, Callable[[], CheckResult]], ...] = (
        ("machine", _check_machine),
        ("terminal", _check_terminal),
        ("folders", lambda: _check_folders(paths)),
        ("disk", lambda: _check_disk(paths.data)),
        ("sqlite", _check_sqlite),
        ("history", lambda: _check_history(paths.database)),
        ("keyring", _check_keyring),
        ("keys", lambda: _check_keys(settings, paths)),
        ("money", lambda: _check_money(settings, paths)),
        ("models", lambda: _check_models(settings, paths)),
        ("prices", _check_prices),
        ("egress", lambda: _check_egress(paths)),
        ("tools", lambda: _check_tools(settings)),
        ("onnxruntime", _check_onnxruntime),
        ("router", lambda: _check_router(paths)),
        ("llama.cpp", _check_llama),
        ("answer", lambda: _check_answer(settings, paths)),
        ("conductor", lambda: _check_conductor(settings, paths)),
    )
    for name, check in checks:
        try:
            yield check()
        except BatonError as error:
            yield CheckResult(name, CheckState.BROKEN, str(error))
        except Exception as error:  # whatever is broken here is what the doctor is for
            yield CheckResult(name, CheckState.BROKEN, f"{type(error).__name__}: {error}")


def _check_python() -> CheckResult:
    import platform

    # Not platform.platform(), which starts `uname`.
    where = f"{platform.system()} {platform.release()}, {platform.machine()}"
    text = f"baton {__version__}, Python {platform.python_version()} on {where}"
    return CheckResult("python", CheckState.OK, text)


def _settings_text(file: Path) -> str:
    return f"{file} is fine" if file.exists() else f"all as delivered ({file} is not there)"


def _check_machine() -> CheckResult:
    machine = computer.machine()
    text = (
        f"{machine.processor}, {machine.cores} cores, {machine.threads} threads;"
        f" {show_memory(machine.memory)} of memory, {machine.free_percent} % free"
    )
    if machine.battery is not None:
        text += f"; battery {machine.battery:.0%}{', in use' if machine.is_on_battery else ''}"
    return CheckResult(
        "machine", CheckState.WARN if machine.available < _LOW_BYTES else CheckState.OK, text
    )


def _check_terminal() -> CheckResult:
    terminal = describe_terminal()
    if not terminal.attached:
        return CheckResult(
            "terminal", CheckState.OK, "none attached; the app needs one, `baton ask` doesn't"
        )
    colours = {2: "no colours", 2**24: "16 million colours"}
    inside = "".join(f", in {name}" for name in terminal.inside)
    text = (
        f"{terminal.columns}x{terminal.lines}, TERM={terminal.term},"
        f" {colours.get(terminal.colours, f'{terminal.colours} colours')}{inside}"
    )
    small = terminal.columns < 80 or terminal.lines < 24
    return CheckResult(
        "terminal", CheckState.WARN if small else CheckState.OK, text + " (small)" * small
    )


def _check_folders(paths: Paths) -> CheckResult:
    folders = (paths.config, paths.data, paths.state, paths.cache)
    listed = ", ".join(dict.fromkeys(str(folder) for folder in folders))
    for folder in folders:
        place = _nearest_folder(folder)
        if not os.access(place, os.W_OK | os.X_OK):
            return CheckResult("folders", CheckState.BROKEN, f"{place} can't be written to.")
    files = (
        *(paths.data, paths.database, paths.ledger, paths.state, paths.logs),
        *(paths.config_file, paths.keys_file),
    )
    open_ones = [str(f) for f in files if f.exists() and f.stat().st_mode & 0o077]
    if open_ones:
        command = shlex.join(["chmod", "go=", *open_ones])
        text = f"Others on this machine may look into what is yours: `{command}` ends that."
        return CheckResult("folders", CheckState.WARN, text)
    return CheckResult("folders", CheckState.OK, listed)


def _nearest_folder(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _check_disk(folder: Path) -> CheckResult:
    free = shutil.disk_usage(_nearest_folder(folder)).free
    state = CheckState.WARN if free < _LOW_BYTES else CheckState.OK
    return CheckResult("disk", state, f"{show_size(free)} free for {folder}")


def _check_sqlite() -> CheckResult:
    from baton.history import sqlite_version, weakness

    if weak := weakness():
        return CheckResult("sqlite", CheckState.WARN, weak)
    return CheckResult("sqlite", CheckState.OK, f"SQLite {sqlite_version()}")


def _check_history(database: Path) -> CheckResult:
    return _check_database("history", database)


def _check_database(name: str, database: Path) -> CheckResult:
    """Look at a file without writing to it, so that a broken one stays as it is."""
    from baton.platform.sqlite import sqlite3

    if not database.exists():
        return CheckResult(name, CheckState.OK, "none yet")
    address = f"{database.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        return CheckResult(name, CheckState.BROKEN, f"{database} is damaged: {verdict}")
    return CheckResult(name, CheckState.OK, f"{database}, {show_size(database.stat().st_size)}")


def _check_keyring() -> CheckResult:
    from baton.platform.secrets import keyring_here

    name, why = keyring_here()
    if not name:
        text = f"{why}; keys for cloud workers can come from the environment"
        return CheckResult("keyring", CheckState.WARN, text)
    return CheckResult("keyring", CheckState.OK, name)


def _check_keys(settings: Settings, paths: Paths) -> CheckResult:
    """Say which providers have a key, and where; a cloud worker without one can't answer."""
    from baton.cli.keys import key_name
    from baton.platform import secrets

    outside = [worker for worker in settings.roster if not isinstance(worker, LocalWorker)]
    needed = {name for worker in outside if (name := key_name(worker))}
    names = dict.fromkeys([*secrets.PROVIDERS, *sorted(needed)])
    found = secrets.listed(names, file=paths.keys_file, environ=os.environ)
    told = ", ".join(f"{name} ({key.source})" for name, key in found.items()) or "none"
    if missing := sorted(needed - set(found)):
        return CheckResult("keys", CheckState.WARN, f"{told}; missing for {', '.join(missing)}")
    return CheckResult("keys", CheckState.OK, told)


_LEDGER_REMOVED = "The ledger was removed"


def _check_money(settings: Settings, paths: Paths) -> CheckResult:
    """Look whether something can be spent; a ledger that is damaged or not there stays so."""
    from baton.cli.budget import budget_verdict
    from baton.compose import is_ledger_lost
    from baton.core.ledger_types import ScopeBalance, Standing

    sound = _check_database("money", paths.ledger)
    if sound.state is CheckState.BROKEN:
        return sound
    ceilings = settings.budget.ceilings
    if is_ledger_lost(paths):
        return CheckResult(
            "money", CheckState.WARN, f"{_LEDGER_REMOVED}, so the next paid call finds it frozen."
        )
    if paths.ledger.exists():
        from baton.cli.ledger_access import with_ledger

        standing = with_ledger(lambda ledger: ledger.standing(ceilings, ""))
    else:
        standing = Standing(
            tuple(ScopeBalance(scope, amount) for scope, amount in ceilings.items())
        )
    unconfirmed = max((room.unconfirmed for room in standing.rooms), default=0)
    text = budget_verdict(settings, standing)
    if unconfirmed:
        text += f" {show_usd(unconfirmed)} is unconfirmed: `baton budget release`."
    return CheckResult("money", CheckState.WARN if standing.frozen else CheckState.OK, text)


def _check_models(settings: Settings, paths: Paths) -> CheckResult:
    """Say which models were fetched, and which of them can't be used."""
    from baton.compose import library
    from baton.models.model_types import State as Standing

    stock = library(settings, paths)
    found = stock.models()
    lost = [held for held in found if held.state in (Standing.BROKEN, Standing.GONE)]
    told = [*(f"{held.id} is {held.state.value}." for held in lost), *stock.problems()]
    if told:
        return CheckResult(
            "models", CheckState.WARN, f"{' '.join(told)} `baton models ls` lists them all."
        )
    if not found:
        text = "none fetched; `baton models recommend` says which suit this machine"
        return CheckResult("models", CheckState.OK, text)
    size = show_size(sum(held.bytes for held in found))
    names = ", ".join(held.id for held in found if held.state is not Standing.COMING)
    coming = ", ".join(held.id for held in found if held.state is Standing.COMING)
    told = [names, f"{coming} not all here yet" if coming else "", f"{size} in {paths.models}"]
    return CheckResult("models", CheckState.OK, "; ".join(filter(None, told)))


def _check_prices() -> CheckResult:
    from baton.workers.cloud.price_table import snapshot

    listed = snapshot()
    if not listed.models:
        text = "Baton's list is damaged, so cloud workers need a price in config.toml"
        return CheckResult("prices", CheckState.BROKEN, text)
    return CheckResult("prices", CheckState.OK, f"{len(listed.models)} models of {listed.date}")


def _check_egress(paths: Paths) -> CheckResult:
    """Say what left last."""
    from baton.compose import is_ledger_lost

    nothing = CheckResult("egress", CheckState.OK, "nothing ever left this machine")
    if is_ledger_lost(paths):
        return CheckResult("egress", CheckState.WARN, f"{_LEDGER_REMOVED}: what left is not known.")
    if not paths.ledger.exists():
        return nothing
    if (sound := _check_database("egress", paths.ledger)).state is CheckState.BROKEN:
        return sound
    from baton.cli.ledger_access import format_time, with_ledger

    last = with_ledger(lambda ledger: ledger.egress(None, 1))
    if not last:
        return nothing
    size, where, at = show_size(last[0].size), last[0].destination, format_time(last[0].at)
    text = f"{size} to {where} on {at} was the last that left; `baton egress ls`"
    return CheckResult("egress", CheckState.OK, text)


def _check_onnxruntime() -> CheckResult:
    from baton.workers.local import probe

    found = asyncio.run(probe("onnxruntime"))
    # "Azure" is in every build, and would send questions elsewhere: it is never asked for.
    all_names = (name.removesuffix("ExecutionProvider") for name in found["providers"])
    names = ", ".join(name for name in all_names if name != "Azure")
    return CheckResult("onnxruntime", CheckState.OK, f"{found['version']}, runs on {names}")


def _check_router(paths: Paths) -> CheckResult:
    """Ask the router, and say on what it runs, how fast, and with whose answers."""
    from baton.routing import learned_file, measure

    file = learned_file(paths.data)
    found = asyncio.run(measure(file))
    if found.trouble:
        text = f"{found.trouble} Until then a rule of length and task decides."
        return CheckResult("router", CheckState.WARN, text)
    text = f"{found.milliseconds:.0f} ms per question on {found.provider}"
    if found.note:
        return CheckResult("router", CheckState.WARN, f"{text}. {found.note}")
    own = "as delivered, nothing learned from your answers yet"
    if found.learned:
        own = f"with what was learned from your answers ({file})"
    return CheckResult("router", CheckState.OK, f"{text}, {own}")


def _check_llama() -> CheckResult:
    from baton.workers.local import probe

    found = asyncio.run(probe("llama"))
    abilities = ", ".join(re.findall(r"(\w+) = 1", found["system"]))
    gpu, missing = gpu_text(found)
    made = f" for processors like {found['processor']}" if found["processor"] else ""
    text = f"build {found['version']}{made}, {gpu}; {abilities}"
    if missing:
        return CheckResult("llama.cpp", CheckState.WARN, f"{text}. {missing}")
    known = [Gpu(one["description"], one["free"], one["total"]) for one in found["devices"]]
    if idle := computer.machine(gpus=known).idle_gpus:
        return CheckResult(
            "llama.cpp", CheckState.WARN, f"{text}. {idle_gpu_text(idle, bool(found['gpu']))}"
        )
    return CheckResult("llama.cpp", CheckState.OK, text)


def _check_tools(settings: Settings) -> CheckResult:
    """Compute something, and say in what code would run."""
    from baton.core.messages import Message, Request, Role, Text
    from baton.workers.tools import sandbox, tools

    if not settings.tools:
        return CheckResult("tools", CheckState.OK, "off in the settings (`tools = false`)")
    calculator = tools()["calculator"]

    async def compute() -> str:
        request = Request((Message(Role.USER, "6 * 7"),))
        try:
            chunks = calculator.stream(request)
            return "".join([c.text async for c in chunks if isinstance(c, Text)])
        finally:
            await calculator.aclose()

    result = asyncio.run(compute())
    if not result.endswith(" = 42"):
        return CheckResult("tools", CheckState.BROKEN, f"the calculator says of 6 * 7: {result}")
    place = sandbox()
    state = CheckState.OK if place else CheckState.WARN
    return CheckResult("tools", state, place or "there is no sandbox here, so no code is executed")


def _check_answer(settings: Settings, paths: Paths) -> CheckResult:
    return _try_worker("answer", settings.worker, settings, paths)


def _check_conductor(settings: Settings, paths: Paths) -> CheckResult:
    """Check the worker that is configured to draw plans, as `ask` would meet it."""
    named = settings.conductor
    if not named:
        return CheckResult(
            "conductor", CheckState.OK, "none configured, so Baton chooses who draws plans"
        )
    if named == RULE_CONDUCTOR:
        return CheckResult(
            "conductor", CheckState.OK, "no model plans, only templates and the rule"
        )
    if not asyncio.run(_is_known(named, settings, paths)):
        text = f"{named} is not complete, so it draws no plans: `baton models ls`"
        return CheckResult("conductor", CheckState.WARN, text)
    if named == settings.worker:
        return CheckResult("conductor", CheckState.OK, f"{named} draws the plans, and answers")
    return _try_worker("conductor", named, settings, paths)


async def _is_known(conductor: str, settings: Settings, paths: Paths) -> bool:
    """Return whether the conductor is a worker. Raises ConfigError for one that isn't known."""
    from baton.compose import compose

    baton = compose(settings, paths, history=False)
    try:
        baton.must_know_conductor()
        known = {card.id for card in baton.orchestra.roster}
        return conductor in known or conductor in baton.orchestra.absent
    finally:
        await baton.aclose()


def _try_worker(name: str, worker: str, settings: Settings, paths: Paths) -> CheckResult:
    """Have a worker write a few tokens, unless that costs money."""
    from baton.cli.worker_test import try_worker
    from baton.compose.local_workers import NOTHING_HERE

    chosen = next((w for w in settings.roster if w.id == worker), None)
    if isinstance(chosen, CloudWorker):
        text = f"{worker} was not tried, which costs money: `baton workers test {worker}`"
        return CheckResult(name, CheckState.OK, text)
    try:
        trial = asyncio.run(try_worker(settings, paths, worker))
    except ModelFileError as error:
        if error.message != NOTHING_HERE.message:
            raise
        return CheckResult(name, CheckState.WARN, str(error))  # nothing is broken
    where = f" ({trial.hardware})" if trial.hardware else ""
    text = f"{worker} wrote {trial.tokens} tokens in {trial.seconds:.1f} s{where}"
    return CheckResult(name, CheckState.OK, text)
