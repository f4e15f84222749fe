"""Numbers, times and states of models, in words for people."""

from __future__ import annotations

import time

from baton.core.byte_format import show_part, show_speed
from baton.core.sanitiser import one_line
from baton.download.progress import Phase, Progress
from baton.models.model_types import LibraryModel, ModelState

_LICENCES = {"apache-2.0": "Apache-2.0", "mit": "MIT"}


def duration(seconds: float) -> str:
    """Write a time to wait: "40 s", "3 min", "1 h 20 min"."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def day(seconds: float) -> str:
    """Write when something was, as short as it can be understood: "14:03", "12 Nov", "Nov 2025"."""
    then, now = time.localtime(seconds), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    return time.strftime("%d %b" if then[0] == now[0] else "%b %Y", then).lstrip("0")


def share(done: int, total: int) -> int:
    """Return how much is done, in whole percent: 100 only when it is all."""
    return 100 * done // total if total else 0


def speed(tokens: float | None) -> str:
    """Write tokens per second, or "" where nothing was measured."""
    return "" if tokens is None else f"{tokens:.0f}" if tokens >= 10 else f"{tokens:.1f}"


def state(held: LibraryModel) -> str:
    """Say how a model stands: "here", "coming 40 %", "paused 40 %", "broken"."""
    if held.state is not ModelState.COMING:
        return held.state.value
    word = "paused" if held.record.paused else "coming"
    return f"{word} {share(held.bytes, held.record.size)} %"


def progress(step: Progress) -> str:
    """Say how far a download is: "45 %  0.6 of 1.3 GB  12 MB/s  1 min left"."""
    if step.phase is Phase.WAITING:
        return "waiting: another Baton fetches it"
    percent = f"{share(step.done, step.total):3} %"
    if step.phase is Phase.VERIFYING:
        return f"{percent}  verifying"
    rate = show_speed(step.speed) if step.speed else ""
    left = f"{duration(step.left)} left" if step.left is not None else ""
    return "  ".join(filter(None, (percent, show_part(step.done, step.total), rate, left)))


def licence(name: str) -> str:
    """Write a licence's name as it is known."""
    return _LICENCES.get(name.lower(), one_line(name, 40))


def listed(words: list[str]) -> str:
    """Write words as a sentence does: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def count(number: int, thing: str = "model") -> str:
    """Write how many there are: "1 model", "3 models"."""
    return f"{number} {thing}{'' if number == 1 else 's'}"
