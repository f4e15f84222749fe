"""What a model has read, for several prompts at once: a llama.cpp context and its slots."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

from baton.workers.local.child.batch_plan import (
    FINAL_TOKENS,
    Layout,
    SlotState,
    choose_layout,
    choose_slot,
    common_prefix,
    grown,
    has_room,
)
from baton.workers.local.child.llama_loader import LlamaError, c

if TYPE_CHECKING:
    from baton.workers.local.child.llama import Model

SLOW_BATCH_SECONDS = 0.1
"""Seconds per batch from which on cancelling mustn't wait for the batch's end."""

_NO_CELLS, _ABORTED = 1, 2  # what llama_decode returns then


class AppliedAdapter(NamedTuple):
    """A LoRA adapter as llama.cpp holds it, None for none, and the scale that it is put on with."""

    adapter: Any = None
    scale: float = 0.0


NO_ADAPTER = AppliedAdapter()


@dataclass(eq=False)
class Slot:
    """A sequence of a context: the tokens that were read, with which adapter, for which client.

    While a prompt holds it, `expected` is how many tokens it needs room for, else 0. `used` counts
    upwards over a context's slots. `number` is llama.cpp's, which another layout may change.
    """

    number: int
    tokens: list[int] = field(default_factory=list)
    adapter: AppliedAdapter = NO_ADAPTER
    client: str = ""
    expected: int = 0
    used: int = 0

    @property
    def is_free(self) -> bool:
        """Whether no prompt holds it."""
        return not self.expected


class Share(NamedTuple):
    """The next tokens of a slot in a batch; `is_sampled` is whether a word follows the last one."""

    slot: Slot
    tokens: Sequence[int]
    is_sampled: bool


class Reading(Enum):
    """How reading a batch ended; but for the first, none of it counts as read."""

    DONE = auto()
    STOPPED = auto()  # it was cancelled, or what was known had to be forgotten
    FULL = auto()  # too many answers are being written for this context


class Context:
    """A context with slots for several prompts, which share its room of up to `limit` tokens.

    It grows to what the prompts that hold a slot need; what others have left is kept for later
    prompts as long as it costs no growth, or `choose_layout` says so. `cancelled` is asked at every
    moment where work can stop; then `decode` returns early, and the context stays usable. Raises
    LlamaError.
    """

    def __init__(
        self,
        model: Model,
        limit: int,
        threads: int,
        cancelled: Callable[[], bool],
        quantised: bool = False,
        slots: int = 1,
    ) -> None:
        self.slots = [Slot(number) for number in range(slots)]
        self._model = model
        self._limit = limit
        self._threads = threads
        self._quantised = quantised
        self._cancelled = cancelled
        self._is_splittable = model.can_split(quantised)
        self._abort = c.ggml_abort_callback(lambda _: cancelled())
        self._batch = _Batch(model.batch, self.slots)
        self._native: Any = None
        self._clock = 0
        self._is_watching = self._is_slow = False
        self._adapter = NO_ADAPTER
        self.layout = Layout(0, 0, self._is_splittable)
        width = 1 if self._is_splittable or model.has_costly_slots else slots
        self._rearrange(grown(Layout(width, 1, self._is_splittable), limit, width), [])

    @property
    def native(self) -> Any:
        """llama.cpp's own context; another one once this has grown."""
        return self._native

    def take(
        self,
        prompt: Sequence[int],
        adapter: AppliedAdapter = NO_ADAPTER,
        client: str = "",
        *,
        knows_nothing: bool = False,
    ) -> Slot | None:
        """Return a slot that knows as much of the prompt as possible, None where it has to wait.

        It is held until `release`. The prompt's last tokens are never known: their figures are
        needed. With `knows_nothing` all of it is read, so that nothing depends on earlier requests.
        Nothing is known of what was read for another client: how much it is would reveal the text.
        """
        held = [slot for slot in self.slots if not slot.is_free]
        if not has_room([slot.expected for slot in held], len(prompt), self._limit):
            return None
        usable = self.slots
        if self._model.has_costly_slots:
            width = self.layout.width
            usable = [one for one in usable if one.number < width + (len(held) == width)]
        if knows_nothing:
            for slot in self.slots:
                if slot.is_free:
                    self._keep(slot, 0)
        states = [
            self._state_for(slot, () if knows_nothing else prompt, adapter, client)
            for slot in usable
        ]
        choice = choose_slot(states)
        if choice is None:
            return None
        slot, source = usable[choice.slot], usable[choice.source]
        shared = states[choice.source].shared
        self._keep(slot, shared if slot is source else 0)
        slot.expected = len(prompt)
        self._clock += 1
        slot.used = self._clock
        try:
            fits = self._make_room()
            if fits and slot is not source:
                self._copy(source, slot)
                self._keep(slot, min(shared, len(slot.tokens)))
            slot.adapter, slot.client = adapter, client
        except LlamaError:
            self.release(slot)
            raise
        if not fits:
            self.release(slot)
        return slot if fits else None

    def release(self, slot: Slot) -> None:
        """Let a slot go; what it knows is kept for later prompts while there is room for it."""
        slot.expected = 0

    def decode(self, shares: Sequence[Share]) -> Reading:
        """Read the next tokens of some slots, all with the same adapter on.

        Then the sampled ones' figures are at their place in the batch; see `places`.
        """
        before = [len(share.slot.tokens) for share in shares]
        for slot, tokens, _ in shares:
            slot.expected = max(slot.expected, len(slot.tokens) + len(tokens))
        if not self._make_room():
            return Reading.FULL
        if before != [len(share.slot.tokens) for share in shares] or self._cancelled():
            return Reading.STOPPED
        self._put_on(shares[0].slot.adapter)
        self._watch(self._is_slow or any(len(share.tokens) > 1 for share in shares))
        began = time.monotonic()
        status = c.llama_decode(self._native, self._batch.filled(shares))
        self._is_slow = time.monotonic() - began > SLOW_BATCH_SECONDS
        if status == 0:
            for slot, tokens, _ in shares:
                slot.tokens += tokens
            return Reading.DONE
        for slot, _, _ in shares:
            self._keep(slot, len(slot.tokens))
        if status == _ABORTED:
            return Reading.STOPPED
        if status == _NO_CELLS and len(shares) > 1:
            return Reading.FULL
        raise LlamaError(f"llama.cpp failed to compute (status {status})")

    def _state_for(
        self, slot: Slot, prompt: Sequence[int], adapter: AppliedAdapter, client: str
    ) -> SlotState:
        is_alike = slot.adapter == adapter and slot.client == client
        shared = common_prefix(slot.tokens, prompt[:-FINAL_TOKENS]) if is_alike else 0
        return SlotState(slot.is_free, shared, len(slot.tokens), slot.used)

    def _copy(self, source: Slot, slot: Slot) -> None:
        """Have a slot know what another one has read: a recurrent model's can't be cut."""
        if self.layout.is_split:
            parts = self.layout.width
            known = _Place(self._native, parts, source.number)
            if not _carry_over(known, known._replace(number=slot.number)):
                return
        else:
            memory = c.llama_get_memory(self._native)
            c.llama_memory_seq_cp(memory, source.number, slot.number, -1, -1)
        slot.tokens[:] = source.tokens

    def _watch(self, on: bool) -> None:
        """Ask `cancelled` within decoding too: worth its price only where that takes long."""
        if on != self._is_watching:
            self._is_watching = on
            callback = self._abort if on else c.ggml_abort_callback()
            c.llama_set_abort_callback(self._native, callback, None)

    def _put_on(self, wanted: AppliedAdapter) -> None:
        """Have llama.cpp compute with an adapter."""
        if wanted == self._adapter:
            return
        adapters = scales = None
        if wanted.adapter:
            adapters = (c.llama_adapter_lora_p_ctypes * 1)(wanted.adapter)
            scales = (ctypes.c_float * 1)(wanted.scale)
        if c.llama_set_adapters_lora(self._native, adapters, 1 if adapters else 0, scales):
            raise LlamaError("llama.cpp can't put the adapter on")
        self._adapter = wanted

    def _keep(self, slot: Slot, count: int) -> None:
        """Have a slot forget everything after its first `count` tokens, or all if it can't that."""
        if slot.number >= self.layout.width:
            return  # it has no room, and knows nothing
        memory = c.llama_get_memory(self._native)
        # What a layer with a window looks back at from there on may have been let go.
        window = self._model.window
        first = c.llama_memory_seq_pos_min(memory, slot.number) if window else 0
        kept = count > 0 and 0 <= first <= max(count - window, 0)
        if not kept or not c.llama_memory_seq_rm(memory, slot.number, count, -1):
            c.llama_memory_seq_rm(memory, slot.number, -1, -1)
            count = 0
        del slot.tokens[count:]

    def _make_room(self) -> bool:
        """Make the context large enough for those who hold a slot; False if it can't be."""
        held = [slot for slot in self.slots if not slot.is_free]
        running = [slot.expected for slot in held]
        if sum(running) > self._limit:
            return False
        width, size, is_split = self.layout
        if is_split and all(slot.number < width and slot.expected <= size for slot in held):
            return True
        idle = [slot for slot in self.slots if slot.is_free and slot.tokens]
        idle.sort(key=lambda slot: -slot.used)
        wanted, numbers = self._wanted_layout(held, [len(slot.tokens) for slot in idle])
        kept = [idle[number] for number in numbers]
        for slot in idle:
            if slot not in kept:
                self._keep(slot, 0)
        is_placed = all(slot.number < self.layout.width for slot in held)
        if is_placed and self.layout.serves(wanted):
            return True
        try:
            self._rearrange(grown(wanted, self._limit, len(self.slots)), [*held, *kept])
        except LlamaError:
            if len(held) < 2:
                raise
            return False  # one after the other they may fit
        return True

    def _wanted_layout(self, held: list[Slot], idle: list[int]) -> tuple[Layout, list[int]]:
        """Return a layout for those who hold a slot, and which of the idle ones it has room for.

        On a GPU and with flash attention, others' tokens cost nothing, so that all share one room.
        """
        running = [slot.expected for slot in held]
        if self._is_splittable:
            return choose_layout(running, idle, self._limit, len(self.slots))
        width = self.layout.width
        while width <= max(slot.number for slot in held):
            width = min(2 * width, len(self.slots))
        wanted = Layout(width, sum(running), is_split=False)
        room = max(grown(wanted, self._limit, width).size, self.layout.size)
        kept = 0
        while kept < len(idle) and wanted.size + sum(idle[: kept + 1]) <= room:
            kept += 1
        return wanted, list(range(kept))

    def _rearrange(self, layout: Layout, known: list[Slot]) -> None:
        """Take another llama.cpp context, in which those slots come first, with what they know."""
        native = self._model.context(
            layout, self._threads, quantised=self._quantised, slots=len(self.slots)
        )
        if not native:
            raise LlamaError(f"there isn't enough memory for a context of {layout.size:,} tokens")
        order = known if layout.is_split else []
        order = [*order, *(slot for slot in self.slots if slot not in order)]
        old, new = (one.width if one.is_split else 1 for one in (self.layout, layout))
        for number, slot in enumerate(order):
            place, other = _Place(self._native, old, slot.number), _Place(native, new, number)
            if slot.tokens and not _carry_over(place, other):
                slot.tokens.clear()
            slot.number = number
        if self._native:
            c.llama_free(self._native)
            _trim_heap()
        self._native, self.layout = native, layout
        self._is_watching, self._adapter = False, NO_ADAPTER


class _Batch:
    """A llama.cpp batch, whose arrays are made once."""

    def __init__(self, room: int, slots: Sequence[Slot]) -> None:
        self._tokens = (c.llama_token * room)()
        self._positions = (c.llama_pos * room)()
        self._counts = (ctypes.c_int32 * room)(*[1] * room)
        self._owners = (ctypes.POINTER(c.llama_seq_id) * room)()
        self._sampled = (ctypes.c_int8 * room)()
        self._numbers = [(c.llama_seq_id * 1)(slot.number) for slot in slots]
        self._pointers = [
            ctypes.cast(number, ctypes.POINTER(c.llama_seq_id)) for number in self._numbers
        ]
        self._native = c.llama_batch(
            token=self._tokens,
            pos=self._positions,
            n_seq_id=self._counts,
            seq_id=self._owners,
            logits=self._sampled,
        )

    def filled(self, shares: Sequence[Share]) -> Any:
        """Return it with the tokens of some slots."""
        at = 0
        for slot, tokens, is_sampled in shares:
            end, first = at + len(tokens), len(slot.tokens)
            self._tokens[at:end] = list(tokens)
            self._positions[at:end] = list(range(first, first + len(tokens)))
            self._owners[at:end] = [self._pointers[slot.number]] * len(tokens)
            self._sampled[at:end] = [0] * len(tokens)
            self._sampled[end - 1] = is_sampled
            at = end
        self._native.n_tokens = at
        return self._native


def places(shares: Sequence[Share]) -> list[int]:
    """Return where in a batch the last token of each share is."""
    ends, at = [], -1
    for share in shares:
        at += len(share.tokens)
        ends.append(at)
    return ends


def _trim_heap() -> None:
    """Return to the system what was freed, where the C library would keep it for later."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
        if trim is not None:
            trim(0)


class _Place(NamedTuple):
    """A sequence of a llama.cpp context whose room has so many parts."""

    native: Any
    parts: int
    number: int


def _carry_over(old: _Place, new: _Place) -> bool:
    """Copy what is known at one place to another one; False where that can't be.

    llama.cpp writes, behind 8 bytes, how many parts the room has, then what each of them has of the
    sequence: how many tokens, with more behind that only where there are any. It reads that back
    only into a room of as many parts.
    """
    size = c.llama_state_seq_get_size(old.native, old.number)
    state = (ctypes.c_uint8 * size)()
    if not c.llama_state_seq_get_data(old.native, state, size, old.number):
        return False
    if old.parts != new.parts:
        before = old.number if old.parts > 1 else 0
        known = memoryview(state).cast("B")[12 + 4 * before : size - 4 * (old.parts - 1 - before)]
        count = new.parts.to_bytes(4, sys.byteorder)
        changed = b"".join((bytes(state[:8]), count, known, bytes(4 * (new.parts - 1))))
        size = len(changed)
        state = (ctypes.c_uint8 * size).from_buffer_copy(changed)
    return bool(c.llama_state_seq_set_data(new.native, state, size, new.number))
