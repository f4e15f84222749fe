"""What came of models that were to come, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from baton.cli.error_report import report_error
from baton.cli.json_output import error_object
from baton.compose import appoint
from baton.core.byte_format import show_size
from baton.core.catalogue_types import ModelRole
from baton.core.errors import BatonError
from baton.core.model_roles import arrival_text
from baton.gguf.memory_fit import Fit
from baton.models.model_types import LibraryModel, ModelState
from baton.platform.settings import find_paths, load_settings

if TYPE_CHECKING:
    from baton.models.library import Library


@dataclass
class Outcome:
    """What came of what was asked for: `held` in the end, or the error."""

    asked: str
    held: LibraryModel | None = None
    error: BatonError | None = None
    said: str = ""
    roles: tuple[ModelRole, ...] | None = None


async def settled(
    library: Library, held: LibraryModel, fresh: bool, roles: tuple[ModelRole, ...] | None = None
) -> str:
    """Give a model its roles if it has arrived just now (or was asked to take some), and say so."""
    paths = find_paths()
    name = f"{held.id} ({show_size(held.record.size)})"
    if held.state is ModelState.BROKEN:
        return f"{name} is broken: {held.record.wrong}."
    if not fresh:
        return f"{name} is here already."
    wanted = replace(held.record, roles=held.record.roles if roles is None else roles)
    takes = appoint(replace(held, record=wanted), library, load_settings(paths.config_file), paths)
    said = arrival_text(held.id, name, takes, library.suitable_roles(held.id))
    verdict = await library.verdict(held.id)
    return said if verdict.fit is Fit.FITS else f"{said} {verdict.why}".strip()


def exit_code(outcomes: Sequence[Outcome]) -> int:
    """Tell of what went wrong, and return the exit code of the first of it."""
    errors = [outcome.error for outcome in outcomes if outcome.error is not None]
    codes = [report_error(error) for error in errors]
    return codes[0] if codes else 0


def as_object(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return what came of all of it, for machines."""
    failed = [outcome.error for outcome in outcomes if outcome.error is not None]
    return {
        "schema": 1,
        "status": "failed" if failed else "finished",
        "error": error_object(failed[0]) if failed else None,
        "models": [
            held_object(outcome.held)
            | {
                "asked": outcome.asked,
                "error": error_object(outcome.error) if outcome.error else None,
            }
            for outcome in outcomes
        ],
    }


def held_object(held: LibraryModel | None) -> dict[str, Any]:
    """Return how a model stands, for machines."""
    record = held.record if held is not None else None
    return {
        "id": held.id if held else None,
        "state": held.state.value if held else None,
        "size": record.size if record else 0,
        "bytes": held.bytes if held else 0,
        "sha256": record.sha256 if record else "",
        "licence": record.licence if record else "",
        "file": str(held.path) if held else None,
        "linked": bool(record and record.link),
        "wrong": record.wrong if record else "",
    }
