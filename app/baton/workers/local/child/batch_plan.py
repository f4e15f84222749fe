"""What goes into the next batch, and which slot a prompt gets: decided here, from numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

Lane = TypeVar("Lane")

MARGIN_TOKENS = 128
"""Room that each answer must have before another prompt is let in beside it: answers that outgrow
it aren't an error, but the latest of them then has to wait and is read again."""

READ_SHARE = 4
"""Beside answers that are being written, prompts get one part in so many of a batch: a batch takes
as long as all of its tokens, and each answer moves on by one token a batch."""


FINAL_TOKENS = 2
"""How many tokens of a prompt are read last, at least, whatever is known of it. A token by itself
is multiplied by other code than several are, which rounds otherwise: then an answer would depend on
what was read before. (SmolLM2, AVX-512: figures of words differ by up to .7, by 0 from two on.)"""


def batch_shares(pending: Sequence[int], room: int, *, is_split: bool = False) -> list[int]:
    """Return how many of its pending tokens each sequence gets into a batch of `room` tokens.

    One that writes has a single pending token, and gets it. Those that read a prompt share what is
    left evenly, so that a long prompt holds up no short one; beside writers less is left. What
    remains of a prompt is never less than FINAL_TOKENS. Slots with room of their own are computed
    together as far as their shares are alike, so those of what isn't read to its end are then.
    """
    writers = sum(count == 1 for count in pending)
    left = min(room - writers, room // READ_SHARE if writers else room)
    wanted = [count if count > 1 else 0 for count in pending]
    shares = fair_shares(wanted, max(left, 0))
    if is_split:
        cut = (share for share, count in zip(shares, wanted, strict=True) if share < count)
        most = max(min(cut, default=room), 1)
        shares = [min(share, most) for share in shares]
    return [
        1 if count == 1 else share_for(count, share)
        for count, share in zip(pending, shares, strict=True)
    ]


def share_for(pending: int, share: int) -> int:
    """Return how many of the pending tokens are read now, of `share` that there is room for."""
    is_short = 0 < pending - share < FINAL_TOKENS
    return max(pending - FINAL_TOKENS, 0) if is_short else min(pending, share)


def fair_shares(wanted: Sequence[int], room: int) -> list[int]:
    """Return what each gets of `room`: none more than wanted, else alike, the first the rest."""
    shares = [0] * len(wanted)
    open_ones = [n for n, count in enumerate(wanted) if count]
    for rank, n in enumerate(sorted(open_ones, key=lambda n: wanted[n])):
        shares[n] = min(wanted[n], room // (len(open_ones) - rank))
        room -= shares[n]
    for n in open_ones:
        more = min(wanted[n] - shares[n], room)
        shares[n] += more
        room -= more
    return shares


def has_room(held: Sequence[int], tokens: int, limit: int) -> bool:
    """Whether a prompt of so many tokens may be read beside answers that hold some each.

    Alone it always may.
    """
    margins = MARGIN_TOKENS * (len(held) + 1)
    return not held or sum(held) + tokens + margins <= limit


class SlotState(NamedTuple):
    """What counts of a slot when a prompt looks for one.

    `shared` is how many tokens it has in common with the prompt, `known` how many it has read,
    `used` when that was, on any clock that only goes forward.
    """

    is_free: bool
    shared: int
    known: int
    used: int


class SlotChoice(NamedTuple):
    """The slot that a prompt gets, and the slot that knows most of it: often the same one."""

    slot: int
    source: int


def choose_slot(slots: Sequence[SlotState]) -> SlotChoice | None:
    """Return the slot for a prompt, None where all are held.

    That is the free one that knows most of it. One that would lose more than it shares is spared
    for later prompts: an empty slot, or that which was used least recently, is taken instead.
    """
    free = [n for n, slot in enumerate(slots) if slot.is_free]
    if not free:
        return None
    source = max(range(len(slots)), key=lambda n: (slots[n].shared, slots[n].is_free))
    best = max(free, key=lambda n: (slots[n].shared, slots[n].known > 0, -n))
    if 2 * slots[best].shared < slots[best].known:
        best = min(free, key=lambda n: (slots[n].known > 0, slots[n].used))
    if slots[source].shared <= slots[best].shared:
        source = best
    return SlotChoice(best, source)


CELL_BLOCK = 256
"""llama.cpp rounds a slot's room up to a multiple of this, in tokens."""

MIN_CONTEXT_TOKENS = 2048
"""Tokens a context begins with: zeroing the memory of a large one would delay the first word."""

FEW_SLOTS = 2
"""Up to so many are few: while so few prompts run, what is long and idle is kept though it slows
them down, and where there are no more slots, flash attention doesn't pay."""


class Layout(NamedTuple):
    """How a context's room is divided: `size` tokens for each of `width` slots where it `is_split`,
    else for all of them together.
    """

    width: int
    size: int
    is_split: bool

    def serves(self, wanted: Layout) -> bool:
        """Whether one that is there is as good as one that is wanted."""
        is_alike = self.is_split == wanted.is_split or wanted.width == 1
        return is_alike and self.width >= wanted.width and self.size >= wanted.size


def choose_layout(
    running: Sequence[int], idle: Sequence[int], limit: int, slots: int
) -> tuple[Layout, list[int]]:
    """Return how room for `limit` tokens is divided on a processor, and which idle ones stay.

    `running` is what each prompt that runs needs, `idle` what is known of others, the latest first.
    In slots of their own they cost each other nothing, but all are as large as the largest. Where
    they don't fit so, they share one room, in which each token passes over the others' text: then
    only what is longer than all that runs stays of the idle ones, and beside few.
    """
    longest = max(running)
    is_few = len(running) <= FEW_SLOTS
    precious = [n for n, known in enumerate(idle) if is_few and known > longest]
    for count in range(len(idle), max(precious, default=-1), -1):
        width, size = len(running) + count, max((*running, *idle[:count]))
        size = min(size + -size % CELL_BLOCK, limit)
        if width * size <= limit:
            return Layout(width, size, is_split=True), list(range(count))
    kept, size = list[int](), sum(running)
    for number in precious:
        if size + idle[number] <= limit:
            kept.append(number)
            size += idle[number]
    return Layout(slots, size, is_split=False), kept


def grown(layout: Layout, limit: int, slots: int) -> Layout:
    """Return a layout with room to grow, so that it isn't changed for each prompt."""
    width, size, is_split = layout
    if is_split:
        wider = min(1 << (width - 1).bit_length(), slots)
        width = wider if wider * size <= limit else width
    most = limit // width // CELL_BLOCK * CELL_BLOCK if is_split and width > 1 else limit
    room = MIN_CONTEXT_TOKENS
    while room < size:
        room *= 2
    return Layout(width, min(room, most), is_split)


def next_lane(lanes: Sequence[Lane], last: Lane | None) -> Lane | None:
    """Return whose turn it is: the one after the last, in a circle."""
    if not lanes:
        return None
    return lanes[(lanes.index(last) + 1) % len(lanes)] if last in lanes else lanes[0]


def common_prefix(known: Sequence[int], prompt: Sequence[int]) -> int:
    """Return how many tokens two sequences share at their beginning."""
    for index, (one, other) in enumerate(zip(known, prompt, strict=False)):
        if one != other:
            return index
    return min(len(known), len(prompt))
