"""`baton models recommend` and `role`: what suits this machine, and which model does what."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from baton.cli import interrupts
from baton.cli.models.inventory import complete_known, find_known_model, open_library
from baton.cli.models.model_list import verdict_object, wrap_line
from baton.cli.output import emit, emit_document, notify
from baton.cli.stores import format_columns
from baton.cli.workers import list_workers
from baton.compose import NOTHING_HERE, compose
from baton.core.catalogue_types import (
    RULE_CONDUCTOR,
    STARTER_ID,
    ModelRole,
    role_holders,
    settings_for_roles,
    settings_without_model,
)
from baton.core.errors import BatonError, ConfigError
from baton.core.machine import Hardware, show_memory, show_size
from baton.core.sanitiser import one_line
from baton.platform.paths import find_paths
from baton.platform.settings import Settings, load_settings, write_settings
from baton.presentation.model_rows import UNUSABLE_STATES, gpu_text, licence_text
from baton.presentation.words import count_text

if TYPE_CHECKING:
    from baton.models import Library, Pick, Recommendation


_ROLE_NAMES = [role.value for role in ModelRole]


@click.command(short_help="Say which models suit this machine.")
@click.option("--no-measure", is_flag=True, help="Skip the measurement of two seconds.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def recommend(no_measure: bool, as_json: bool) -> None:
    """Say which models suit this machine, what they take, and about how fast they will be.

    The first time, the starter model writes for two seconds, from which the speed of the others is
    estimated; the result is kept. Nothing is fetched and nothing leaves this machine. Only models
    under licences that allow any use are recommended; `baton models ls --all` lists the
    others too.
    """
    interrupts.restore_default_handler()
    machine, advice, speed = asyncio.run(_recommend(not no_measure))
    if as_json:
        return emit_document(**_recommendation_object(machine, advice, speed))
    # Its first part, what the machine has, stands in the line already.
    besides = advice.why.partition("; ")[2].rstrip(".") if advice.picks else ""
    line = "; ".join(filter(None, (machine_line(machine), besides)))
    emit(wrap_line(f"This machine: {line}.", 0))
    if not advice.picks:
        return emit(wrap_line(advice.why, 0))
    emit(_table(advice.picks))
    download = f"To download: {show_size(advice.download)}. " if advice.download else ""
    emit(wrap_line(f"{download}{_joint_text(advice)}", 0))
    missing = [pick for pick in advice.picks if not pick.here]
    if missing:
        notify("`baton models pull --recommended` fetches them; nothing was fetched yet.")
    else:
        notify("All of it is here already.")


def _joint_text(advice: Recommendation) -> str:
    """Say what they take: less than the column adds up to, as not all are loaded at once."""
    why = advice.verdict.why
    if len(advice.picks) > 1 and why.startswith("Together they "):
        rest = why.removeprefix("Together they ")
        return f"They are loaded one at a time, so with what Baton itself needs they {rest}"
    return why


async def _recommend(measures: bool) -> tuple[Hardware, Recommendation, float | None]:
    async with open_library() as (library, settings):
        speed, advice = await measure_and_recommend(library, settings, measures)
        return await library.inspect_machine(), advice, speed


def machine_line(machine: Hardware) -> str:
    """Say what a machine has: memory, cores, GPUs with their drivers, disk, battery."""
    battery = "" if machine.battery is None else f"battery {round(100 * machine.battery)} %"
    parts = (
        f"{show_memory(machine.memory)} of memory ({machine.free_percent} % free)",
        count_text(machine.cores, "core"),
        one_line(machine.processor, 50),
        *(_gpu_texts(machine) or ["no GPU that can be used"]),
        f"{show_size(machine.disk)} free on the disk" if machine.disk else "",
        f"{battery} and not plugged in" if machine.is_on_battery else battery,
    )
    return ", ".join(filter(None, parts))


def _gpu_texts(machine: Hardware) -> list[str]:
    used = [
        gpu_text(gpu) + (f" (driver {one_line(gpu.driver, 20)})" if gpu.driver else "")
        for gpu in machine.gpus
    ]
    idle = [f"{one_line(name, 40)}, which llama.cpp here can't use" for name in machine.idle_gpus]
    return [*used, *idle]


_COLUMNS = ["model", "for", "download", "memory", "tokens/s", "licence"]


def _table(picks: Sequence[Pick]) -> str:
    rows = [_COLUMNS, *map(_row, picks)]
    if all(pick.speed is None for pick in picks):
        at = _COLUMNS.index("tokens/s")
        rows = [row[:at] + row[at + 1 :] for row in rows]
    return format_columns(rows, left=2, words_last=True)


def _row(pick: Pick) -> list[str]:
    return [
        pick.entry.id,
        ", ".join(role.value for role in pick.roles),
        "here" if pick.here else show_size(pick.entry.size),
        show_size(pick.load.total),
        "" if pick.speed is None else f"about {max(1, round(pick.speed))}",
        licence_text(pick.entry.licence),
    ]


def _recommendation_object(
    machine: Hardware, advice: Recommendation, speed: float | None
) -> dict[str, Any]:
    return {
        "status": "finished",
        "machine": asdict(machine),
        "starter_tokens_per_second": None if speed is None else round(speed, 1),
        "models": [
            {
                "id": pick.entry.id,
                "name": pick.entry.name,
                "roles": [role.value for role in pick.roles],
                "size": pick.entry.size,
                "memory_bytes": pick.load.total,
                "tokens_per_second": None if pick.speed is None else round(pick.speed, 1),
                "licence": pick.entry.licence,
                "here": pick.here,
            }
            for pick in advice.picks
        ],
        "download_bytes": advice.download,
        "memory_bytes": advice.memory,
        "fit": verdict_object(advice.verdict),
        "why": advice.why,
    }


_ROLE_EXAMPLES = """\b
Examples:
  baton models role                        who does what
  baton models role conductor qwen3.5-2b   have it draw the plans
  baton models role coder none             leave that to Baton again
  baton models role conductor rule         no model plans, only templates and the rule
"""


@click.command(epilog=_ROLE_EXAMPLES, short_help="Show or set which model does what.")
@click.argument("role", metavar="[ROLE]", required=False, type=click.Choice(_ROLE_NAMES))
@click.argument("model", metavar="[ID]", required=False, shell_complete=complete_known)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def role(role: str | None, model: str | None, as_json: bool) -> None:
    """Show which model has which role, or give ROLE to the model ID (`none`: Baton chooses).

    \b
      chat       answers unless -m says otherwise        (setting `worker`)
      conductor  draws plans                             (setting `conductor`)
      coder      is preferred for code                   (table `[prefer]`)
      reasoning  is preferred for maths and reasoning    (table `[prefer]`)

    Servers and cloud workers can have roles too; what they cost is asked about as ever.
    """
    file = find_paths().config_file
    if role is not None and model is not None:
        write_settings(file, _role_changes(ModelRole(role), model, load_settings(file)))
    settings = load_settings(file)
    having = role_holders(settings.worker, settings.conductor, settings.prefer)
    cards, default = list_workers()
    here = {card.id for card in cards if not card.is_tool}
    known = {"", RULE_CONDUCTOR} | here
    missing = {name: holder for name, holder in having.items() if holder not in known}
    if as_json:
        roles = {name.value: holder for name, holder in having.items()}
        absent = sorted(set(missing.values()))
        return emit_document(status="finished", roles=roles, missing=absent)
    shown = having if role is None else {ModelRole(role): having[ModelRole(role)]}
    who = {name: _holder_text(name, holder, here, default) for name, holder in shown.items()}
    if role is None:
        emit(format_columns([[name.value, holder] for name, holder in who.items()], left=2))
    else:
        emit(who[ModelRole(role)])
    if not here:
        notify(str(NOTHING_HERE))
    elif lacking := [name for name in shown if name in missing]:
        notify(f"`baton models role {lacking[0].value} ID` gives that to a model that is here.")


def _role_changes(role: ModelRole, model: str, settings: Settings) -> Mapping[str, Any]:
    """Return the settings that give a role to a model, or to none. Raises ConfigError."""
    if model == "none":
        having = role_holders(settings.worker, settings.conductor, settings.prefer)
        return settings_without_model(having[role], {role: having[role]})
    if model == RULE_CONDUCTOR and role is ModelRole.CONDUCTOR:
        return {"conductor": RULE_CONDUCTOR}
    row = find_known_model(model)
    if row.state == "coming" or row.is_offered:
        yet = "" if row.is_offered else " yet"
        raise ConfigError(
            f"{row.id} isn't here{yet}, so it can't have a role.",
            f"`baton models pull {row.id} --role {role.value}` fetches it for that.",
        )
    if row.is_stored and (row.state in UNUSABLE_STATES or row.fault):
        what = f"{row.id} can't answer, so it can't have a role."
        raise ConfigError(what, f"`baton models show {row.id}` says why.")
    return settings_for_roles(row.id, [role])


def _holder_text(role: ModelRole, holder: str, here: Collection[str], default: str) -> str:
    """Say who has a role: whom the settings name may not be here."""
    if role is ModelRole.CONDUCTOR and holder == RULE_CONDUCTOR:
        return "no model, by your choice: only templates and the rule"
    if not holder or holder in here:
        return one_line(holder) or "Baton chooses"
    if role is not ModelRole.CHAT:
        return f"{one_line(holder)}, which isn't here"
    if default in here:
        return f"{one_line(default)}, as {one_line(holder)} isn't here"
    return f"{one_line(holder)}, which isn't here" if here else "no model yet"


async def measure_and_recommend(
    library: Library, settings: Settings, measures: bool
) -> tuple[float | None, Recommendation]:
    """Return the starter's speed, measured once if that is wanted, and what suits this machine."""
    machine = await library.inspect_machine()
    speed = library.memory.speed(machine)
    if speed is None and measures:
        from baton.workers.local import is_machine_busy

        busy = await is_machine_busy()
        speed = await _measure_speed(settings)
        if speed is not None:
            library.memory.save_speed(speed, machine, busy=busy)
    return speed, await library.recommend(speed)


async def _measure_speed(settings: Settings) -> float | None:
    """Return how many tokens/s the starter writes here; None where it can't be measured."""
    from baton.workers.local import measure_speed, starter

    try:
        starter()
    except BatonError:
        return None
    notify("Measuring for two seconds how fast this machine is ...")
    try:
        baton = compose(settings, find_paths(), history=False, only=[STARTER_ID])
    except BatonError:
        return None
    try:
        return await measure_speed(baton.orchestra.worker(STARTER_ID))
    except BatonError:
        return None
    finally:
        await baton.aclose()
