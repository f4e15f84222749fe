"""`baton self show`, `update` and `rollback`: which build this is, and changes of it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

import click

from baton.cli import interrupts
from baton.cli.models.terminal_dialog import ProgressBoard, ask_agreement
from baton.cli.options import json_object_option, offline_option, quiet_option, yes_option
from baton.cli.output import emit, emit_document, notify, require_terminal
from baton.core.errors import BatonError
from baton.core.machine import show_size
from baton.core.sanitiser import one_line
from baton.download import FLAVOURS, GPUS, Progress, is_address
from baton.install import (
    FoundRelease,
    ReleaseStanding,
    Updater,
    UpdateResult,
    own_installation,
    own_updater,
)
from baton.platform.paths import find_paths
from baton.platform.settings import load_settings

_EXAMPLES = """\b
Examples:
  baton self update                      from where this one was installed
  baton self update --check              only say what there is
  baton self update --from /media/stick/baton
  baton self update --from https://example.org/baton
  baton self update --flavour slim       the same without the starter model

A release is a folder, or what an address leads to, with manifest.json and its signature
in it. It counts only if the key that is built in here has signed it, so a mirror and a
stick are as good as the original. Interrupted at any time, the old or the new version is
there, and the next run continues. Running Batons keep the version that they are.
"""


@click.command(short_help="Show which build this is.")
@json_object_option
def show(as_json: bool) -> None:
    """Show which build this is, where it is and came from, and which version it replaced."""
    from baton.platform import build_info as building

    installed = own_installation(find_paths())
    built, receipt = building.build_info(), installed.receipt
    assert built is not None, "an installation was built"
    kept = installed.previous_build if installed.previous else None
    before = kept.build if kept is not None else None
    if as_json:
        return emit_document(
            **asdict(built),
            file=str(installed.target),
            source=receipt.source,
            previous=str(installed.previous or ""),
            previous_version=before and before.version,
        )
    rows = {
        "Version": ", ".join(filter(None, (built.version, built.flavour, built.gpu))),
        "Platform": built.platform,
        "Commit": built.commit,
        "File": str(installed.target),
        "Came from": receipt.source,
        "Before": f"{before or 'another version'}, in {installed.previous}"
        if installed.previous
        else "",
        "Update key": built.update_key or "none, so it takes no updates",
    }
    for name, value in rows.items():
        if value:
            emit(f"{name + ':':12} {one_line(value, 300)}")


@click.command(epilog=_EXAMPLES, short_help="Get the newest release, verified.")
@click.option(
    "--from",
    "source",
    metavar="FOLDER|URL",
    default="",
    help="Where the release is; by default where this one came from.",
)
@click.option("--check", is_flag=True, help="Only say what there is.")
@click.option("--flavour", type=click.Choice(FLAVOURS), help="Change to this flavour.")
@click.option(
    "--gpu", type=click.Choice([gpu or "none" for gpu in GPUS]), help="Change to this build."
)
@click.option("--force", is_flag=True, help="Install it even if it is older, or the same version.")
@yes_option
@offline_option
@quiet_option
@json_object_option
def update(
    source: str,
    check: bool,
    flavour: str | None,
    gpu: str | None,
    force: bool,
    yes: bool,
    offline: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Install the newest release, if it is newer than this one.

    Who made it is checked by its signature, and every byte by its hash; it is started once before
    it replaces this one. The version that was here is kept: `baton self rollback`.
    """
    interrupts.restore_default_handler()
    chosen = None if gpu is None else gpu.replace("none", "")
    wish = _UpdateRequest(source, flavour, chosen, force, yes, quiet)
    try:
        release, action = asyncio.run(_update(wish, check, offline))
    except KeyboardInterrupt:
        if not quiet:
            notify("Stopped; the program is whole. The same command continues from there.")
        raise
    if as_json:
        emit_document(status="finished", action=action, **_release_object(release))
    elif check:
        emit(_verdict_text(release))


@dataclass(frozen=True, slots=True)
class _UpdateRequest:
    """The command's options."""

    source: str
    flavour: str | None
    gpu: str | None
    force: bool
    yes: bool
    quiet: bool


async def _update(wish: _UpdateRequest, check: bool, offline: bool) -> tuple[FoundRelease, str]:
    from baton.compose import background

    paths = find_paths()
    settings = load_settings(paths.config_file, flags={"offline": True} if offline else {})
    async with aclosing(own_updater(paths, offline=settings.offline)) as updates:
        if check:
            return await updates.find_release(wish.source, wish.flavour, wish.gpu), "none"
        with updates.installation.hold_lock():
            finished = updates.finish_interrupted()
            if not wish.quiet:
                _report_finished(finished)
            release = await updates.find_release(wish.source, wish.flavour, wish.gpu)
            await _check_permitted(release, wish)
            changed = await _run_update(updates, release, wish.quiet)
            background.stop(paths)  # it is of the version before
    if not wish.quiet:
        notify(_result_text(changed, updates))
    return release, changed.action


async def _check_permitted(release: FoundRelease, wish: _UpdateRequest) -> None:
    """Refuse, or ask about, what isn't newer. Raises BatonError and Exit."""
    if release.standing in (ReleaseStanding.NEWER, ReleaseStanding.HERE, ReleaseStanding.OTHER):
        return
    if not wish.force:
        raise BatonError(
            f"{_verdict_text(release)} Nothing was changed.",
            "If you expected a newer one, the source may be handing out an old release;"
            " --force takes it all the same.",
        )
    if release.standing is not ReleaseStanding.OLDER or wish.yes:
        return
    require_terminal("Nothing was changed", "-y does it anyway.")
    if not await ask_agreement(f"{_verdict_text(release)} Go back to it all the same?"):
        raise click.exceptions.Exit(1)


async def _run_update(updates: Updater, release: FoundRelease, quiet: bool) -> UpdateResult:
    if not (quiet or release.standing is ReleaseStanding.HERE):
        where = "" if is_address(release.source) else "folder "
        notify(
            f"{release.now} -> {release.build}, {show_size(release.file.size)}"
            f" from {where}{one_line(release.source, 120)}"
        )
    with ProgressBoard([release.file.name], quiet) as board:
        async with aclosing(updates.update(release)) as steps:
            async for step in steps:
                if isinstance(step, Progress):
                    board.show(release.file.name, step)
                else:
                    return step
    raise AssertionError("an update ends with what was changed")


@click.command(short_help="Go back to the previous version.")
@json_object_option
def rollback(as_json: bool) -> None:
    """Go back to the previous version, without a network.

    This one is kept: `baton self rollback` once more returns to it. Models, history
    and settings stay as they are.
    """
    interrupts.restore_default_handler()
    changed = asyncio.run(_rollback())
    if as_json:
        emit_document(
            status="finished",
            action=changed.action,
            version=changed.now.version,
            previous_version=changed.before.version,
        )


async def _rollback() -> UpdateResult:
    # Without the settings: this version may be unable to read them.
    async with aclosing(own_updater(find_paths())) as updates:
        with updates.installation.hold_lock():
            finished = updates.finish_interrupted()
            _report_finished(finished)
            if finished is not None and finished.action == "rollback":
                return finished
            changed = await updates.rollback()
    notify(_result_text(changed, updates))
    return changed


def _report_finished(finished: UpdateResult | None) -> None:
    if finished is not None:
        notify(
            f"The {finished.action} that was interrupted is complete now:"
            f" {finished.now} is here, and {finished.before} is kept."
        )


def _result_text(changed: UpdateResult, updates: Updater) -> str:
    if changed.action == "none":
        return f"This is {changed.now} already, byte for byte."
    verb = "Updated to" if changed.action == "update" else "Gone back to"
    return (
        f"{verb} {changed.now}: {updates.installation.target}."
        f" {changed.before} is kept; `baton self rollback` returns to it."
    )


def _verdict_text(release: FoundRelease) -> str:
    there = f"{release.build}{f' of {release.released}' if release.released else ''}"
    return {
        ReleaseStanding.NEWER: f"There is {there}; this is {release.now}.",
        ReleaseStanding.HERE: f"This is the release's version already: {there}.",
        ReleaseStanding.OTHER: f"There is {there}; this is {release.now}.",
        ReleaseStanding.EQUAL: f"The release is another file of the same version as this: {there}.",
        ReleaseStanding.OLDER: f"The release is older than this ({release.now}): {there}.",
    }[release.standing]


def _release_object(release: FoundRelease) -> dict[str, Any]:
    return {
        "version": release.build.version,
        "flavour": release.build.flavour,
        "gpu": release.build.gpu,
        "released": release.released,
        "installed_version": release.now.version,
        "standing": release.standing.value,
        "available": release.standing in (ReleaseStanding.NEWER, ReleaseStanding.OTHER),
        "bytes": release.file.size,
        "source": release.source,
    }
