"""Which models suit a machine, and how fast each will write there before it is there.

The conductor and the router that come with Baton stay loaded and the models of a set come one at a
time, so what must fit is these two and the largest model together. Another conductor is never
recommended: `baton bench --conductor` measures whether one plans better. Of all sets that fit, on
the disk too, the best one has the models that are expected to do their roles best at an acceptable
speed. A model that is here already costs no download, and a larger download must bring more.

Nothing is recommended that wouldn't fit right now, beside what else runs. Where that makes the set
a poorer one, `why` says so: the user can close other programs.

Speeds are estimated from the starter model's. A model reads all the weights that a token uses for
each token that it writes, and on a processor the memory's speed is the limit. So a model of ten
times the bytes takes ten times as long. The starter model is so small that it waits for other
things too, which makes the estimate low: a file of 1.4 GB was reported to write 10 tokens/s on two
cores like those on which the starter wrote 100, where this says 7.

On a GPU the starter hardly waits for memory at all, so its speed shows only the delay that every
token has. What cards read per second grows with the memory they have: from 14 times
(Tesla P40) over 28 (RTX 3050) to 56 times (RTX 3070) all of it per second, and 6 to 12 times where
it is the machine's own (Apple). Taken are 15 and 6.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product

from baton.core.catalogue_types import CatalogueEntry, ModelRole, ThinkingMode
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.machine import Hardware, show_memory, show_size
from baton.core.messages import DEFAULT_CONTEXT
from baton.core.planning.skill_estimates import skill_by_size
from baton.gguf.memory_fit import (
    SPARE_BYTES,
    Fit,
    FitVerdict,
    ModelLoad,
    estimate_entry_load,
    gpu_room,
    judge_fit,
    layers_on_gpu,
)

ROUTER_LOAD = ModelLoad("the router", 0, 0, 0, 250_000_000)
"""What Baton itself takes: the router's process (121 MB were measured), and the front."""

CONDUCTOR_LOAD = ModelLoad("the conductor", 0, 0, 0, 300_000_000)
"""The starter model's process while it plans, with a chat beside it (283 MB were measured)."""

RESERVED_BYTES = 1_200_000_000
"""Bytes of memory left to the system and to what the user has open."""

DISK_MARGIN, DISK_RESERVE = 1.1, 1_000_000_000
"""So many times the download, and so many bytes more, must be free on the disk."""

_OPTIONAL_ROLES = (ModelRole.CODER, ModelRole.REASONING)

_TIGHT_COST = 0.6
"""What it costs that little memory is left for other programs."""

_SPILL_COST = 0.5
"""What it costs that a part of a model runs beside the GPU, with an unknown loss of speed."""

_MISSING_ROLE_COST = 0.5
"""What it costs that a role is taken by a model that isn't made for it."""

_COST_PER_GB = 0.02
"""What a gigabyte to download costs."""

_SLOW_SHARE = 0.5
"""A machine below this share of the usual speed counts as slow."""

_MIN_GAIN = 0.3
"""How much better a set must be to be worth closing other programs, or another recommendation."""


@frozen_dataclass
class Pick:
    """One model of a recommended set: what it is for, and about how fast it writes here.

    `speed` is in tokens/s, None if nothing was measured; `here` is whether it is on this machine.
    """

    entry: CatalogueEntry
    roles: tuple[ModelRole, ...]
    load: ModelLoad
    speed: float | None = None
    here: bool = False


@frozen_dataclass
class Recommendation:
    """A set of models for a machine; no picks where not even the smallest fits beside the rest.

    `download` is what would be fetched and `memory` what they take together, in bytes; `why` is a
    sentence for people. `worth` compares sets for the same machine.
    """

    picks: tuple[Pick, ...]
    download: int
    memory: int
    verdict: FitVerdict
    why: str
    worth: float = 0.0


def recommend(
    entries: Sequence[CatalogueEntry],
    machine: Hardware,
    *,
    speed: float | None = None,
    here: Collection[str] = (),
    context: int = DEFAULT_CONTEXT,
    before: Collection[str] = (),
) -> Recommendation:
    """Return the set that suits a machine best, of those models that need no agreement.

    `speed` is how many tokens/s the starter model makes here, `here` the ids of what is there.
    What was recommended `before` is so again unless another set is much better: the free memory,
    by which sets are chosen, is never twice the same.
    """
    starter = speed or usual_starter_speed(machine)
    chooser = _Selector(entries, _with_reserve(machine), starter, here, context)
    best = _steady_choice(chooser.best(), entries, before, chooser)
    emptied = _with_reserve(replace(machine, available=machine.memory))
    roomy = _Selector(entries, emptied, starter, here, context).best()
    more = roomy is not None and (best is None or roomy.worth > best.worth + _MIN_GAIN)
    if best is None:
        alone = judge_fit([ROUTER_LOAD], machine)
        return Recommendation((), 0, alone.needed, alone, _refusal_reason(machine, more))
    verdict = judge_fit(best.loads, machine)
    picks = chooser.picks(best, speed)
    download = sum(pick.entry.size for pick in picks if not pick.here)
    why = _reason(machine, verdict, more, speed)
    return Recommendation(picks, download, verdict.needed, verdict, why, best.worth)


@frozen_dataclass
class _ModelSet:
    """Models by role, the loads that must fit at the worst moment, and what the set is worth."""

    roles: Mapping[ModelRole, CatalogueEntry]
    loads: tuple[ModelLoad, ...]
    worth: float


@frozen_dataclass
class _Candidate:
    """One model for one role: what it is worth there, how it fits, and its speed in tokens/s."""

    entry: CatalogueEntry
    fit: Fit
    speed: float
    worth: float


class _Selector:
    """Selects models for one machine."""

    def __init__(
        self,
        entries: Sequence[CatalogueEntry],
        machine: Hardware,
        starter: float,
        here: Collection[str],
        context: int,
    ) -> None:
        self._entries = [entry for entry in entries if entry.is_free and entry.size]
        self._machine = machine
        self._starter = starter
        self._here = frozenset(here)
        self._context = context
        self._loads = {entry.id: estimate_entry_load(entry, context) for entry in self._entries}

    def best(self) -> _ModelSet | None:
        """Return the best set of models that are quick enough, None if there is none."""
        found: dict[ModelRole, list[_Candidate]] = {
            role: [] for role in (ModelRole.CHAT, *_OPTIONAL_ROLES)
        }
        for entry in self._entries:
            fit = judge_fit(self._loads_at_work(entry), self._machine).fit
            if fit is Fit.WONT:
                continue
            pace = estimate_speed(entry, self._machine, self._starter, context=self._context)
            for role in found.keys() & set(entry.roles):
                if is_fast_enough(entry, role, pace):
                    value = role_worth(entry, role, pace) - self._spill_cost(entry, role)
                    found[role].append(_Candidate(entry, fit, pace, value))
        best: _ModelSet | None = None
        for chat in found[ModelRole.CHAT]:
            for others, whole in _model_sets(chat, found, best.worth if best else -math.inf):
                entries = {chat.entry, *(one.entry for one in others.values())}
                download = sum(entry.size for entry in entries if entry.id not in self._here)
                whole -= _COST_PER_GB * download / 1e9
                if (best is None or whole > best.worth) and self._has_room(download):
                    best = self._make_set({ModelRole.CHAT: chat, **others}, whole)
        return best

    def restricted(self, entries: Sequence[CatalogueEntry]) -> _Selector:
        """Return a selector for the same machine that knows only these models."""
        return _Selector(entries, self._machine, self._starter, self._here, self._context)

    def picks(self, chosen: _ModelSet, measured: float | None) -> tuple[Pick, ...]:
        """Return a set's models, each once, with all that it is for.

        Their speeds are estimated from the starter's `measured` one, if there is one.
        """
        roles: dict[str, list[ModelRole]] = {}
        for role, entry in chosen.roles.items():
            roles.setdefault(entry.id, []).append(role)
        known = {entry.id: entry for entry in chosen.roles.values()}
        return tuple(
            Pick(
                known[id],
                tuple(own),
                self._loads[id],
                self._shown_speed(known[id], measured),
                id in self._here,
            )
            for id, own in roles.items()
        )

    def _shown_speed(self, entry: CatalogueEntry, measured: float | None) -> float | None:
        if not measured:
            return None
        return round_speed(estimate_speed(entry, self._machine, measured, context=self._context))

    def _make_set(self, chosen: Mapping[ModelRole, _Candidate], whole: float) -> _ModelSet:
        loads = (self._loads_at_work(one.entry) for one in chosen.values())
        largest = max(loads, key=lambda together: sum(load.total for load in together))
        return _ModelSet({role: one.entry for role, one in chosen.items()}, largest, whole)

    def _loads_at_work(self, entry: CatalogueEntry) -> tuple[ModelLoad, ...]:
        """Return what is loaded while a model works."""
        return self._loads[entry.id], CONDUCTOR_LOAD, ROUTER_LOAD

    def _spill_cost(self, entry: CatalogueEntry, role: ModelRole) -> float:
        """Return what it costs that a part of a model runs beside the GPU."""
        load, machine = self._loads[entry.id], self._machine
        is_whole = not machine.gpus or gpu_share(load, machine) == 1
        return 0.0 if is_whole else ROLE_WEIGHTS[role] * _SPILL_COST

    def _has_room(self, needed: int) -> bool:
        free = self._machine.disk
        return not needed or not free or needed * DISK_MARGIN + DISK_RESERVE <= free


def _model_sets(
    chat: _Candidate, beside: Mapping[ModelRole, Sequence[_Candidate]], least: float
) -> Iterator[tuple[dict[ModelRole, _Candidate], float]]:
    """Yield the other models of possible sets, with what each set is worth before its download.

    Only where that may be more than `least`; a model that isn't better than the chat model is left
    out.
    """
    alone = {
        role: role_worth(chat.entry, role, chat.speed) - ROLE_WEIGHTS[role] * _MISSING_ROLE_COST
        for role in _OPTIONAL_ROLES
    }
    better = [[one for one in beside[role] if one.worth > alone[role]] for role in _OPTIONAL_ROLES]
    most = (max((one.worth for one in ones), default=-math.inf) for ones in better)
    bound = sum(max(pair) for pair in zip(most, alone.values(), strict=True))
    if chat.worth + bound <= least:
        return
    for rest in product(*([None, *ones] for ones in better)):
        others = {r: one for r, one in zip(_OPTIONAL_ROLES, rest, strict=True) if one is not None}
        whole = chat.worth
        whole += sum(
            others[role].worth if role in others else alone[role] for role in _OPTIONAL_ROLES
        )
        is_tight = any(one.fit is Fit.TIGHT for one in (chat, *others.values()))
        yield others, whole - _TIGHT_COST * is_tight


def _with_reserve(machine: Hardware) -> Hardware:
    """Return the machine without what is reserved for the system and for the user's programs."""
    most = machine.memory - RESERVED_BYTES + SPARE_BYTES  # judge() takes SPARE off again
    return replace(machine, available=max(0, min(machine.available, most)))


def _steady_choice(
    best: _ModelSet | None,
    entries: Sequence[CatalogueEntry],
    before: Collection[str],
    chooser: _Selector,
) -> _ModelSet | None:
    """Return the set of before where it still fits and the best one isn't much better."""
    known = [entry for entry in entries if entry.id in before]
    kept = chooser.restricted(known).best() if known else None
    if best is None or kept is None or best.worth > kept.worth + _MIN_GAIN:
        return best
    is_whole = {entry.id for entry in kept.roles.values()} == set(before)
    return kept if is_whole else best


def _reason(machine: Hardware, verdict: FitVerdict, more: bool, measured: float | None) -> str:
    """Return what the machine has, and what limits it now, in a sentence."""
    parts = [_machine_text(machine)]
    if more:
        free = show_size(machine.available)
        parts.append(f"only {free} are free now, else larger ones would fit")
    elif verdict.fit is Fit.TIGHT:
        parts.append("little is left for other programs")
    if measured and measured < _SLOW_SHARE * usual_starter_speed(machine):
        parts.append("slow when it was measured, so only small models are quick enough")
    if machine.is_on_battery:
        parts.append("on battery, so slower than plugged in")
    return "; ".join(parts) + "."


def _refusal_reason(machine: Hardware, more: bool) -> str:
    has = _machine_text(machine)
    if more:
        return f"{has}, but only {show_size(machine.available)} are free now: close other programs."
    if 0 < machine.disk < 2 * DISK_RESERVE:
        free = show_size(machine.disk)
        return f"{has}, but only {free} on the disk: too little to fetch a model."
    return f"{has}: too little for more than the starter model."


def _machine_text(machine: Hardware) -> str:
    cores = f"{machine.cores} core{'s' * (machine.cores != 1)}"
    each = Counter(f"{gpu.name} with {show_memory(gpu.total)}" for gpu in machine.gpus)
    cards = ", ".join(f"{count} x {card}" if count > 1 else card for card, count in each.items())
    return f"{show_memory(machine.memory)}, {cores}, {cards or 'no GPU'}"


_ROLE_SKILLS = {
    ModelRole.CHAT: ("chat", "knowledge", "reasoning", "writing"),
    ModelRole.CODER: ("code",),
    ModelRole.REASONING: ("reasoning", "math"),
}
"""The kinds of tasks that a role is about."""

ROLE_WEIGHTS = {ModelRole.CHAT: 1.0, ModelRole.CODER: 0.7, ModelRole.REASONING: 0.7}
"""How much a role counts in a set."""

_MIN_SPEED = 5.0
"""Tokens/s below which a model isn't recommended."""

_FAST_SPEED = 15.0
"""Tokens/s beyond which more speed is worth nothing."""

_HALVING_COST = 0.25
"""What each halving below that costs, in levels."""

_THINKING_COST = 0.3
"""What it costs that a chat model thinks before each answer."""


def role_worth(entry: CatalogueEntry, role: ModelRole, pace: float) -> float:
    """Return what a model is worth in a role if it writes so many tokens/s."""
    halvings = math.log2(_FAST_SPEED / max(_useful_speed(entry, role, pace), 0.01))
    return ROLE_WEIGHTS[role] * (role_level(entry, role) - _HALVING_COST * max(0.0, halvings))


@lru_cache(maxsize=1024)
def role_level(entry: CatalogueEntry, role: ModelRole) -> float:
    """Return how difficult a role's tasks may be for a model: as published, else by its size."""
    parameters = entry.parameters or entry.size * 5 // 3
    size = math.sqrt(parameters * (entry.active or parameters)) / 1e9 or 1.0
    levels = [entry.skills.get(kind) or skill_by_size(size, kind) for kind in _ROLE_SKILLS[role]]
    thinks = role is ModelRole.CHAT and entry.thinking is ThinkingMode.ALWAYS
    return sum(levels) / len(levels) - (_THINKING_COST if thinks else 0.0)


def is_fast_enough(entry: CatalogueEntry, role: ModelRole, pace: float) -> bool:
    """Whether a role can be done at so many tokens/s."""
    return _useful_speed(entry, role, pace) >= _MIN_SPEED


def _useful_speed(entry: CatalogueEntry, role: ModelRole, pace: float) -> float:
    """Return the tokens/s of the answer: thoughts come before it."""
    thinks = entry.thinking is ThinkingMode.ALWAYS and role is not ModelRole.REASONING
    return pace / 2 if thinks else pace


STARTER_BYTES = 98_000_000
"""What the starter model reads for each token: its whole file."""

_STARTER_CORE_SPEED, _MAX_CORES = 45.0, 8
"""Tokens/s of the starter for each core where nothing was measured; more cores than that share the
same memory. Two cores of a server from 2021 made 100."""

_STARTER_GPU_SPEED = 200.0
"""The same on a GPU."""

_GPU_READS_PER_SECOND, _SHARED_READS_PER_SECOND = 15, 6
"""How many times per second a GPU reads all of its memory, at least."""

_BYTES_PER_PARAMETER = 0.6
"""Bytes per parameter of a file of unknown size."""


def expected_speed(entry: CatalogueEntry, machine: Hardware, starter: float) -> float:
    """Return about how many tokens/s a model will make, from the starter model's tokens/s."""
    return round_speed(estimate_speed(entry, machine, starter))


def round_speed(tokens: float) -> float:
    """Round a speed to the precision of the estimate."""
    step = 1 if tokens < 10 else 5 if tokens < 50 else 10
    return round(max(tokens, 0.0) / step) * step if tokens >= 1 else round(max(tokens, 0.0), 1)


def usual_starter_speed(machine: Hardware) -> float:
    """Return how many tokens/s the starter model usually makes on such a machine, unmeasured."""
    return (
        _STARTER_GPU_SPEED
        if machine.gpus
        else _STARTER_CORE_SPEED * min(max(machine.cores, 1), _MAX_CORES)
    )


def estimate_speed(
    entry: CatalogueEntry, machine: Hardware, starter: float, *, context: int = DEFAULT_CONTEXT
) -> float:
    """Return the tokens/s unrounded."""
    starter = max(starter, 0.1)
    needed = _bytes_per_token(entry)
    if not machine.gpus:
        return starter * STARTER_BYTES / needed
    share = gpu_share(estimate_entry_load(entry, context), machine)
    on_card = needed * share / max(_gpu_bytes_per_second(machine), starter * STARTER_BYTES)
    # What the processor reads from memory per second, unmeasured.
    read = STARTER_BYTES * _STARTER_CORE_SPEED * min(max(machine.cores, 1), _MAX_CORES)
    beside = needed * (1 - share) / read
    return 1 / (1 / starter + on_card + beside)


def gpu_share(load: ModelLoad, machine: Hardware) -> float:
    """Return the share of a model that fits on the GPUs, from 0 to 1."""
    fitting = layers_on_gpu(load, gpu_room(machine.gpus))
    return min(max(fitting, 0) / (load.layers or 32), 1.0)


def _bytes_per_token(entry: CatalogueEntry) -> float:
    """Return the bytes that a model reads for each token: of experts, the few that are asked."""
    size = entry.size or entry.parameters * _BYTES_PER_PARAMETER or STARTER_BYTES
    if not 0 < entry.active < entry.parameters:
        return float(size)
    return size * entry.active / entry.parameters


def _gpu_bytes_per_second(machine: Hardware) -> float:
    """Return the bytes that a GPU reads per second, at least."""
    reads = sum(
        gpu.total * (_SHARED_READS_PER_SECOND if gpu.has_shared_memory else _GPU_READS_PER_SECOND)
        for gpu in machine.gpus
    )
    return reads / len(machine.gpus)  # one after the other reads its share
