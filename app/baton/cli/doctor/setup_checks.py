"""What the doctor checks of a setup: settings, files, keys, money, models, libraries, workers."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shlex
import shutil
from collections.abc import Callable, Sequence
from contextlib import aclosing, closing
from pathlib import Path
from typing import TYPE_CHECKING

from baton import __version__
from baton.cli.doctor.check import Check, CheckContext, CheckFailed, CheckWarning
from baton.core.catalogue_types import RULE_CONDUCTOR
from baton.core.errors import BatonError, ModelFileError
from baton.core.machine import Gpu, show_memory, show_size
from baton.core.messages import Message, Request, Role, Text
from baton.core.money import show_usd
from baton.core.sanitiser import one_line
from baton.doctor import LIBRARIES, load_libraries, processor_text
from baton.platform import hardware, processes, secrets
from baton.platform.build_info import build_info
from baton.platform.durable_files import folder_fault
from baton.platform.settings import CloudWorkerSettings, LocalWorkerSettings

if TYPE_CHECKING:
    from baton.platform.sqlite import Connection, Migration
    from baton.workers.local import LlamaInfo
    from baton.workers.tools import ToolWorker

_LOW_BYTES = 2**30
"""Bytes of disk or memory below which it is worth a warning."""

_FULL_BYTES = 2**21
"""Bytes of disk below which no history and no ledger can be made."""

_MIN_PRICES = 100
"""With fewer models than these the price list isn't complete."""

_LEDGER_REMOVED = "The ledger was removed"


async def check_build(_: CheckContext) -> str:
    """Say what this is, and on what it runs."""
    where = f"{platform.system()} {platform.release()}, {platform.machine()}"
    build = build_info()
    if build is None:
        return f"baton {__version__}, not packaged, Python {platform.python_version()} on {where}"
    variant = " ".join(filter(None, (build.flavour, build.platform, build.gpu)))
    made_of = build.commit or "unknown sources"
    text = f"baton {build.version} ({variant}), built of {made_of}, on {where}"
    if build.version != __version__:
        raise CheckFailed(f"{text}, but its code is {__version__}.")
    return text


async def check_settings(context: CheckContext) -> str:
    """Read the settings."""
    if context.settings_error is not None:
        raise CheckFailed(str(context.settings_error))
    file = context.paths.config_file
    return f"{file} is fine" if file.exists() else f"all as delivered ({file} is not there)"


async def check_machine(_: CheckContext) -> str:
    """Report processor, memory and battery."""
    machine = hardware.inspect_machine()
    text = (
        f"{machine.processor}, {machine.cores} cores, {machine.threads} threads;"
        f" {show_memory(machine.memory)} of memory, {machine.free_percent} % free"
    )
    if machine.battery is not None:
        text += f"; battery {machine.battery:.0%}{', in use' if machine.is_on_battery else ''}"
    return CheckWarning(text) if machine.available < _LOW_BYTES else text


async def check_terminal(_: CheckContext) -> str:
    """Report the terminal's size and colours."""
    terminal = hardware.inspect_terminal()
    if not terminal.attached:
        return "none attached; the app needs one, `baton ask` doesn't"
    colours = {2: "no colours", 2**24: "16 million colours"}
    inside = "".join(f", in {name}" for name in terminal.inside)
    text = (
        f"{terminal.columns}x{terminal.lines}, TERM={terminal.term},"
        f" {colours.get(terminal.colours, f'{terminal.colours} colours')}{inside}"
    )
    small = terminal.columns < 80 or terminal.lines < 24
    return CheckWarning(f"{text} (small)") if small else text


async def check_folders(context: CheckContext) -> str:
    """Check that Baton's folders can be written to, and that others can't read its files."""
    paths = context.paths
    folders = (paths.config, paths.data, paths.state, paths.cache)
    if faults := dict.fromkeys(filter(None, map(folder_fault, folders))):
        raise CheckFailed(f"{'; '.join(faults)}.")
    files = (
        *(paths.data, paths.database, paths.ledger, paths.state, paths.logs),
        *(paths.config_file, paths.keys_file),
    )
    open_ones = [str(f) for f in files if os.access(f, os.F_OK) and f.stat().st_mode & 0o077]
    if open_ones:
        command = shlex.join(["chmod", "go=", *open_ones])
        return CheckWarning(f"Others on this machine can read your files: `{command}` ends that.")
    return ", ".join(dict.fromkeys(str(folder) for folder in folders))


def _nearest_folder(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


async def check_background(context: CheckContext) -> str:
    """Report the background process that keeps models loaded."""
    from baton.cli.models.model_list import background_text
    from baton.compose import background

    if (lender := background.description(context.paths)) is not None:
        return background_text(lender).removesuffix(".")
    if not context.settings.daemon:
        return "none, as the settings say"
    if processes.is_in_ci() or processes.is_in_container():
        return "none: models don't stay loaded in a container or an automatic build"
    return "none runs"


async def check_disk(context: CheckContext) -> str:
    """Report the room on the disk."""
    folder = context.paths.data
    free = shutil.disk_usage(_nearest_folder(folder)).free
    text = f"{show_size(free)} free for {folder}"
    if free < _FULL_BYTES:
        raise CheckFailed(f"The disk is full: {text}.")
    return CheckWarning(text) if free < _LOW_BYTES else text


async def check_sqlite(_: CheckContext) -> str:
    """Report SQLite's version, and a weakness that it has."""
    from baton.platform.sqlite import sqlite_version, version_warning

    weak = version_warning()
    return CheckWarning(weak) if weak else f"SQLite {sqlite_version()}"


async def check_history(context: CheckContext) -> str:
    """Check the user's history, which stays as it is."""
    from baton.history import MIGRATIONS
    from baton.platform.sqlite import schema_fault

    return _check_database(context.paths.database, MIGRATIONS, schema_fault)


def _check_ledger(ledger: Path) -> None:
    from baton.money import MIGRATIONS

    _check_database(ledger, MIGRATIONS, lambda *_: "")


def _check_database(
    database: Path,
    migrations: Sequence[Migration],
    fault_of: Callable[[Connection, Sequence[Migration]], str],
) -> str:
    """Read a database without writing to it, so that a damaged one stays as it is.

    `fault_of` says what is wrong with its schema.
    """
    from baton.platform.sqlite import schema_version, sqlite3

    if not os.path.lexists(database) or folder_fault(database.parent):
        return "none yet"  # the check of the folders says more
    if not (os.access(database, os.R_OK | os.W_OK) and database.is_file()):
        raise CheckFailed(f"{database} can't be read and written: check what it is, and its owner.")
    address = f"{database.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if schema_version(connection) > len(migrations):
                raise CheckFailed(f"{database} was written by a newer Baton: update this one.")
            fault = fault_of(connection, migrations)
    except sqlite3.Error as error:
        verdict = str(error)
    if verdict != "ok":
        raise CheckFailed(f"{database} is damaged: {verdict}")
    text = f"{database}, {show_size(database.stat().st_size)}"
    return CheckWarning(f"{text}: {fault}") if fault else text


async def check_keyring(_: CheckContext) -> str:
    """Report the keyring."""
    name, why = secrets.keyring_status()
    return name or CheckWarning(f"{why}; keys for cloud workers can come from the environment")


async def check_keys(context: CheckContext) -> str:
    """Report which providers have a key, and where; a cloud worker without one can't answer."""
    from baton.cli.keys import key_name

    remote = [
        worker for worker in context.settings.roster if not isinstance(worker, LocalWorkerSettings)
    ]
    needed = {name for worker in remote if (name := key_name(worker))}
    names = dict.fromkeys([*secrets.PROVIDERS, *sorted(needed)])
    keys = secrets.find_keys(names, file=context.paths.keys_file, environ=os.environ)
    text = ", ".join(f"{name} ({key.source})" for name, key in keys.items()) or "none"
    missing = sorted(needed - set(keys))
    return CheckWarning(f"{text}; missing for {', '.join(missing)}") if missing else text


async def check_money(context: CheckContext) -> str:
    """Report whether anything can be spent; a ledger that is damaged or missing stays so."""
    from baton.cli.budget import budget_verdict
    from baton.cli.stores import user_ledger
    from baton.compose import is_ledger_lost
    from baton.core.ledger_types import ScopeBalance, Standing

    settings, paths = context.settings, context.paths
    _check_ledger(paths.ledger)
    ceilings = settings.budget.ceilings
    if is_ledger_lost(paths):
        return CheckWarning(f"{_LEDGER_REMOVED}, so the next paid call finds it frozen.")
    standing = Standing(tuple(ScopeBalance(scope, amount) for scope, amount in ceilings.items()))
    if paths.ledger.exists():
        async with user_ledger() as ledger:
            standing = await ledger.standing(ceilings, "")
    unconfirmed = max((room.unconfirmed for room in standing.rooms), default=0)
    text = budget_verdict(settings, standing)
    if unconfirmed:
        text += f" {show_usd(unconfirmed)} is unconfirmed: `baton budget release`."
    return CheckWarning(text) if standing.frozen else text


async def check_models(context: CheckContext) -> str:
    """Report which models were fetched, and which of them can't be used."""
    from baton.compose import library
    from baton.models import ModelState

    models = library(context.settings, context.paths)
    stored = models.models()
    lost = [held for held in stored if held.state in (ModelState.BROKEN, ModelState.GONE)]
    problems = [
        *(f"{held.id} is {held.state.value}." for held in lost),
        *(f"{held.id} can't answer. {held.record.fault}" for held in stored if held.record.fault),
        *(f"{held.id}: {held.record.note}" for held in stored if held.record.note),
        *models.problems(),
    ]
    if problems:
        return CheckWarning(f"{' '.join(problems)} `baton models ls` lists them all.")
    if not stored:
        return "none fetched; `baton models recommend` says which suit this machine"
    size = show_size(sum(held.bytes for held in stored))
    names = ", ".join(held.id for held in stored if held.state is not ModelState.COMING)
    coming = ", ".join(held.id for held in stored if held.state is ModelState.COMING)
    parts = (names, f"{coming} incomplete" if coming else "", f"{size} in {context.paths.models}")
    return "; ".join(filter(None, parts))


async def check_prices(_: CheckContext) -> str:
    """Read the price list."""
    from baton.workers.cloud import snapshot

    listed = snapshot()
    if len(listed.models) < _MIN_PRICES:
        raise CheckFailed(f"It has only {len(listed.models)} models, so it isn't complete.")
    return f"{len(listed.models)} models of {listed.date}"


async def check_egress(context: CheckContext) -> str:
    """Report what left this machine last."""
    from baton.cli.stores import format_time, user_ledger
    from baton.compose import is_ledger_lost

    if is_ledger_lost(context.paths):
        return CheckWarning(f"{_LEDGER_REMOVED}: what left is not known.")
    _check_ledger(context.paths.ledger)
    last = []
    if context.paths.ledger.exists():
        async with user_ledger() as ledger:
            last = await ledger.egress(None, 1)
    if not last:
        return "nothing ever left this machine"
    size, where, at = show_size(last[0].size), last[0].destination, format_time(last[0].at)
    return f"{size} to {where} on {at} was the last that left; `baton egress ls`"


async def check_tools(context: CheckContext) -> str:
    """Compute, convert, ask for a time in Tokyo, and run code in the sandbox."""
    from baton.workers.tools import build_tools, sandbox

    if not context.settings.tools:
        return "off in the settings (`tools = false`)"
    known = build_tools(environ=context.environ)
    wanted = {
        "calculator": ("6 * 7", "42"),
        "units": ("42 km in miles", "26.1"),
        "clock": ("now(Tokyo)", ":"),
        "python": ("```python\nprint(sum(range(10)) - 3)\n```", "42"),
    }
    try:
        for name, (asked, expected) in wanted.items():
            if name in known and expected not in (answer := await _compute(known[name], asked)):
                raise CheckFailed(f"The {name} answers {answer!r} to {asked!r}.")
    finally:
        await known["calculator"].aclose()
    if place := sandbox():
        return f"calculator, units, clock, and code in a sandbox: {place}"
    return CheckWarning("There is no sandbox here, so no code is executed.")


async def _compute(worker: ToolWorker, text: str) -> str:
    request = Request((Message(Role.USER, text),))
    return "".join([c.text async for c in worker.stream(request) if isinstance(c, Text)])


async def check_libraries(_: CheckContext) -> str:
    """Load the libraries that Baton's processes use."""
    try:
        await asyncio.to_thread(load_libraries)
    except BatonError as error:
        error.hint = error.hint or _repair_hint()
        raise
    return f"all {len(LIBRARIES)} load"


def _repair_hint() -> str:
    if build_info() is not None:
        return "Install Baton again: a file may be damaged. `baton doctor --self-test` says more."
    return "In a checkout, remove the folder .venv and run `scripts/baton` with a network."


async def check_router(context: CheckContext) -> str:
    """Ask the router, and report on what it runs and how fast."""
    from baton.routing import measure_router

    measured = await measure_router()
    if measured.trouble:
        return CheckWarning(f"{measured.trouble} Until then a rule of length and task decides.")
    return f"{measured.milliseconds:.0f} ms per question on {measured.provider}"


async def check_llama(context: CheckContext) -> str:
    """Load llama.cpp, and report what it was built for and which of its variants runs."""
    from baton.workers.local import probe_llama

    try:
        info = await probe_llama(context.environ)
    except BatonError as error:
        if "SIGILL" not in error.message:
            raise
        why = f"It was built for another processor than this one, {processor_text()}."
        raise CheckFailed(f"{error.message} {why}") from error
    abilities = ", ".join(re.findall(r"(\w+) = 1", info.system))
    if not abilities:  # then it isn't there, and no model can be loaded
        raise CheckFailed("What llama.cpp computes with on a processor isn't there.")
    built_for = f"built for {info.processor}, " if info.processor else ""
    gpu, missing = gpu_text(info)
    text = f"build {info.version}, {built_for}{gpu}; {abilities}"
    if missing:
        return CheckWarning(f"{text}. {missing}")
    known = [Gpu(gpu.description, gpu.free, gpu.total) for gpu in info.devices]
    idle = hardware.inspect_machine(gpus=known).idle_gpus
    return CheckWarning(f"{text}. {idle_gpu_text(idle, info.gpu)}") if idle else text


_GPU_KINDS = {"cuda": "CUDA", "hip": "HIP", "metal": "Metal", "sycl": "SYCL", "vulkan": "Vulkan"}


def gpu_text(info: LlamaInfo) -> tuple[str, str]:
    """Return which GPUs can be used, and why those can't that this build is made for."""
    devices = [f"{gpu.description} ({show_size(gpu.free)} free)" for gpu in info.devices]
    kinds = info.gpu_kinds
    if devices:
        return f"can use {', '.join(devices)}", ""
    if kinds:
        missing = " ".join(_unusable_text(kind, why) for kind, why in kinds.items())
        return "CPU only", f"{missing} Models run on the processor."
    return "can use a GPU, but found none" if info.gpu else "CPU only", ""


def _unusable_text(kind: str, why: str) -> str:
    """Say what a build for a kind of GPUs misses."""
    if kind == "vulkan" and "libvulkan.so" in why:
        return (
            "This build is for Vulkan, which isn't here (Debian, Ubuntu: apt install libvulkan1 and"
            " the driver of your GPU; Fedora: dnf install vulkan-loader)."
        )
    if kind == "cuda" and "libcuda.so" in why:
        return "This build is for NVIDIA's GPUs, and their driver isn't here."
    problem = one_line(why, 160) or "no GPU was found that it can use"
    return f"This build is for {_GPU_KINDS.get(kind, kind)}, but {problem}."


def idle_gpu_text(idle: Sequence[str], can: bool) -> str:
    """Say which GPUs are there for nothing, and what to do."""
    cards = ", ".join(one_line(name, 80) for name in idle)
    if can:
        return f"It can't use {cards}: is the driver there, and new enough for this build?"
    what = (
        "Baton's build for CUDA or Vulkan" if build_info() else "a build of llama-cpp-python for it"
    )
    return f"{cards} would be faster: install {what}."


async def check_answer(context: CheckContext) -> str:
    """Have the worker that answers write a few tokens."""
    return await _try_worker(context.settings.worker, context)


async def check_conductor(context: CheckContext) -> str:
    """Check the worker that is configured to draw plans, as `ask` would meet it."""
    named = context.settings.conductor
    if not named:
        return "none configured, so Baton chooses who draws plans"
    if named == RULE_CONDUCTOR:
        return "no model plans, only templates and the rule"
    if not await _is_known(named, context):
        return CheckWarning(f"{named} is not complete, so it draws no plans: `baton models ls`")
    if named == context.settings.worker:
        return f"{named} draws the plans, and answers"
    return await _try_worker(named, context)


async def _is_known(conductor: str, context: CheckContext) -> bool:
    """Whether the conductor is a worker. Raises ConfigError for one that isn't known."""
    from baton.compose import compose

    async with aclosing(compose(context.settings, context.paths, history=False)) as baton:
        baton.require_conductor()
        known = {card.id for card in baton.orchestra.roster}
        return conductor in known or conductor in baton.orchestra.absent


async def _try_worker(worker: str, context: CheckContext) -> str:
    """Have a worker write a few tokens, unless that costs money."""
    from baton.cli.worker_probes import try_worker
    from baton.compose.local_workers import NOTHING_HERE

    chosen = next((w for w in context.settings.roster if w.id == worker), None)
    if isinstance(chosen, CloudWorkerSettings):
        return f"{worker} was not tried, which costs money: `baton workers test {worker}`"
    try:
        trial = await try_worker(context.settings, context.paths, worker)
    except ModelFileError as error:
        if error.message != NOTHING_HERE.message:
            raise
        return CheckWarning(str(error))  # nothing is broken
    where = f" ({trial.hardware})" if trial.hardware else ""
    return f"{worker} wrote {trial.tokens} tokens in {trial.seconds:.1f} s{where}"


CHECKS: tuple[tuple[str, Check], ...] = (
    ("python", check_build),
    ("settings", check_settings),
    ("machine", check_machine),
    ("terminal", check_terminal),
    ("folders", check_folders),
    ("background", check_background),
    ("disk", check_disk),
    ("sqlite", check_sqlite),
    ("history", check_history),
    ("keyring", check_keyring),
    ("keys", check_keys),
    ("money", check_money),
    ("models", check_models),
    ("prices", check_prices),
    ("egress", check_egress),
    # From here on processes start.
    ("tools", check_tools),
    ("libraries", check_libraries),
    ("router", check_router),
    ("llama.cpp", check_llama),
    ("answer", check_answer),
    ("conductor", check_conductor),
)
"""The checks by their names, the quick ones first."""
