"""What to say of the models that suit a machine, and whether the person put that off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from baton.core.byte_format import show_memory, show_size
from baton.core.catalogue_types import ModelRole
from baton.core.ports import Choice
from baton.core.sanitiser import one_line
from baton.platform.durable_files import make_folder
from baton.presentation.model_rows import gpu_text, licence_text
from baton.presentation.words import count_text, join_words

if TYPE_CHECKING:
    from baton.core.machine import Hardware
    from baton.models import ExternalModel, Pick, Recommendation

DOWNLOAD = Choice("download", "Download in the background")
CHOOSE = Choice("choose", "Choose")
LATER = Choice("later", "Later")

STICK_HINT = (
    "Without a network, carry models over on a stick: `baton models export DIR` on a machine that "
    "has them, `baton models import DIR` here."
)
LOOKING_TEXT = "Looking at this machine, for models that suit it …"
NONE_FITS_TEXT = "No model of the catalogue that is better than the one here fits this machine."
PUT_OFF_TEXT = "/recommend shows this again, and so do the models (Ctrl+L)."

_ROLE_PURPOSES = {
    ModelRole.CHAT: "to chat",
    ModelRole.CONDUCTOR: "to draw plans",
    ModelRole.CODER: "to write code",
    ModelRole.REASONING: "to think hard",
}


def machine_text(machine: Hardware) -> str:
    """Say in brackets what there is to run models on: "16 GB, 8 cores, no GPU"."""
    cores = count_text(machine.cores, "core")
    parts = [show_memory(machine.memory), cores, _gpu_text(machine)]
    if machine.battery is not None and not machine.plugged:
        parts.append("on battery")
    return ", ".join(parts)


def _gpu_text(machine: Hardware) -> str:
    if not machine.gpus:
        return "no GPU"
    if len(machine.gpus) > 1:
        together = sum(gpu.total for gpu in machine.gpus)
        return f"{len(machine.gpus)} GPUs with {show_memory(together)}"
    return gpu_text(machine.gpus[0])


def missing_picks(found: Recommendation) -> Sequence[Pick]:
    """Return what would have to be fetched."""
    return [pick for pick in found.picks if not pick.here]


def recommendation_text(found: Recommendation, machine: Hardware, *, alone: bool = False) -> str:
    """Say what suits the machine, how much of it is to be fetched, and about how fast it is.

    With `alone` there is no model yet that they could be better than.
    """
    if not found.picks:
        return f"{NONE_FITS_TEXT} {one_line(found.why, 300)}".strip()
    picks = ", ".join(
        f"{one_line(pick.entry.name, 40)} {_roles_text(pick)}" for pick in found.picks
    )
    wanted = missing_picks(found)
    begins = "Better for" if wanted and not alone else "What suits"
    besides = one_line(found.why.partition("; ")[2].rstrip("."), 200)
    has = "; ".join(filter(None, (machine_text(machine), besides)))
    parts = [f"{begins} this machine ({has}): {picks}."]
    if wanted:
        licences = dict.fromkeys(licence_text(pick.entry.licence) for pick in wanted)
        parts.append(f"{show_size(found.download)}, {', '.join(licences)}.")
    else:
        parts.append("All of it is here.")
    parts.append(_speed_text(found))
    return " ".join(part for part in parts if part)


def _roles_text(pick: Pick) -> str:
    return " and ".join(_ROLE_PURPOSES[role] for role in pick.roles) + (
        " (here)" if pick.here else ""
    )


def _speed_text(found: Recommendation) -> str:
    """Say about how fast the one writes that chats, or else the first; "" if unknown."""
    speeds = sorted(
        (ModelRole.CHAT not in pick.roles, pick.speed) for pick in found.picks if pick.speed
    )
    if not speeds:
        return ""
    speed = speeds[0][1] or 0.0
    return f"About {speed:.0f} tokens/s." if speed >= 1.5 else "About 1 token/s, or less."


def foreign_text(found: Sequence[ExternalModel]) -> str:
    """Say what other programs have that could be used where it lies, or return ""."""
    if not found:
        return ""
    models = Counter(one_line(model.program, 30) for model in found)
    (first, number), *others = models.items()
    said = [
        f"{count_text(number, 'model')} of {first}",
        *(f"{count} of {name}" for name, count in others),
    ]
    return (
        f"Also found: {join_words(said)}, {show_size(sum(model.size for model in found))}: Choose."
    )


# Put off


def _marker_file(state: Path) -> Path:
    return state / "models-later"


def is_put_off(state: Path | None) -> bool:
    """Whether the person said that models can wait."""
    return state is not None and _marker_file(state).exists()


def remember_put_off(state: Path | None) -> None:
    """Remember that models can wait; where that can't be kept, it is asked again."""
    if state is not None:
        with suppress(OSError):
            make_folder(state)
            _marker_file(state).touch(0o600)
