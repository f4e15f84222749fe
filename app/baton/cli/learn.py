"""`baton learn`: the router, refitted on the person's own answers."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from baton.cli.options import quiet_option
from baton.cli.output import emit, emit_document, emit_json, iso_time, notify
from baton.core.errors import ConfigError
from baton.platform.settings import find_paths, load_settings

if TYPE_CHECKING:
    from baton.routing import LearningResult


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would come of it, and keep nothing.")
@click.option("--undo", is_flag=True, help="Take back what was learned last.")
@click.option("--forget", is_flag=True, help="Take back all that was learned, for good.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@quiet_option
def learn(dry_run: bool, undo: bool, forget: bool, as_json: bool, quiet: bool) -> None:
    """Learn from your newest 1,000 answers which worker does well with which prompts.

    What counts: the answers you marked (+ or - in the app, `baton history rate`), copied, wanted
    again, from a stronger worker or for an edited prompt, and local drafts that a remote worker
    replaced. Nothing leaves this machine, and what is kept are numbers, no texts.

    Each answer is tried on what was learned without it: where that does worse, nothing is changed.
    It starts from the router as delivered, so conversations that you removed are out of it. The
    last five versions, which --undo goes back to, go with --forget.
    """
    if sum((dry_run, undo, forget)) > 1:
        raise ConfigError("--dry-run, --undo and --forget exclude each other.", "Choose one.")
    if undo or forget:
        return _revert_learning(undo, as_json)
    if sys.stderr.isatty() and not quiet and not as_json:
        notify("Learning from your answers ...")
    lesson = asyncio.run(_learn_from_answers(dry_run))
    if as_json:
        return emit_json(lesson_object(lesson))
    from baton.routing import result_lines

    undone = ["`baton learn --undo` takes that back."] if lesson.is_kept else []
    emit("\n".join([*result_lines(lesson), *undone]))


def _revert_learning(last: bool, as_json: bool) -> None:
    from baton.routing import LearnedVersions, forget, learned_file, undo

    versions = LearnedVersions(learned_file(find_paths().data))
    said = undo(versions) if last else forget(versions)
    if as_json:
        at = versions.learned_at
        return emit_document(learned_at=None if at is None else iso_time(at), message=said)
    emit(said)


async def _learn_from_answers(dry: bool) -> LearningResult:
    from baton.compose import compose

    paths = find_paths()
    baton = compose(load_settings(paths.config_file), paths)
    try:
        if baton.store.warning:
            notify(f"baton: {baton.store.warning}")
        return await baton.tutor.learn(dry=dry)
    finally:
        await baton.aclose()


def lesson_object(lesson: LearningResult) -> dict[str, Any]:
    """Return a lesson as `learn --json` prints it."""
    from baton.routing import result_lines

    learned = lesson.learned
    return {
        "schema": 1,
        "kept": lesson.is_kept,
        "dry_run": lesson.dry_run,
        "answers": lesson.answers,
        "gone": lesson.left_out,
        "signals": {signal.value: count for signal, count in lesson.signals.items()},
        "used": learned.used if learned else 0,
        "held": learned.held if learned else 0,
        "before": learned.before if learned and learned.held else None,
        "after": learned.after if learned and learned.held else None,
        "notes": result_lines(lesson),
    }
