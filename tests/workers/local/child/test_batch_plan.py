"""What goes into the next batch, for any requests that there may be."""

from __future__ import annotations

from hypothesis import given, strategies as st

from baton.workers.local.child.batch_plan import (
    CELL_BLOCK,
    FEW_SLOTS,
    MARGIN_TOKENS,
    READ_SHARE,
    SlotState,
    batch_shares,
    choose_layout,
    choose_slot,
    common_prefix,
    fair_shares,
    grown,
    has_room,
    next_lane,
)

ROOM = 128
PENDING = st.lists(st.just(1) | st.integers(1, 9000), max_size=64)
SLOTS = st.lists(
    st.builds(
        lambda is_free, known, share, used: SlotState(is_free, int(known * share), known, used),
        st.booleans(),
        st.integers(0, 500),
        st.floats(0, 1),
        st.integers(0, 50),
    ),
    min_size=1,
    max_size=16,
)


@given(PENDING)
def test_each_that_writes_moves_on_in_every_batch(pending: list[int]) -> None:
    shares = batch_shares(pending, ROOM)
    assert sum(shares) <= ROOM
    assert all(0 <= share <= count for share, count in zip(shares, pending, strict=True))
    assert all(share == 1 for share, count in zip(shares, pending, strict=True) if count == 1)


@given(PENDING)
def test_reading_never_stops_and_is_bounded_beside_writers(pending: list[int]) -> None:
    shares = batch_shares(pending, ROOM)
    reading = sum(share for share, count in zip(shares, pending, strict=True) if count > 1)
    wanted = sum(count for count in pending if count > 1)
    if 1 in pending:
        assert reading == min(wanted, ROOM // READ_SHARE, ROOM - pending.count(1))
    else:
        assert reading == min(wanted, ROOM)


@given(PENDING)
def test_every_prompt_is_read_to_its_end(pending: list[int]) -> None:
    left, turns = [max(count, 2) for count in pending], 0
    while any(left):
        open_ones = [count for count in left if count]
        shares = iter(batch_shares(open_ones, ROOM))
        left = [count - next(shares) if count else 0 for count in left]
        turns += 1
    assert turns <= -(-sum(pending) // (ROOM // READ_SHARE)) + 2 * len(pending)


def test_a_prompt_alone_is_read_in_whole_batches() -> None:
    assert batch_shares([300], ROOM) == [ROOM]


@given(st.lists(st.integers(0, 300), max_size=20), st.integers(0, 1000))
def test_shares_are_fair(wanted: list[int], room: int) -> None:
    shares = fair_shares(wanted, room)
    assert sum(shares) == min(sum(wanted), room)
    least = min((s for s, w in zip(shares, wanted, strict=True) if s < w), default=None)
    if least is not None:  # who has less than wanted has as much as any other, up to a rest
        assert max(shares) - least <= len(wanted)


@given(SLOTS)
def test_a_prompt_gets_a_free_slot_and_the_longest_known_beginning(
    slots: list[SlotState],
) -> None:
    choice = choose_slot(slots)
    if not any(slot.is_free for slot in slots):
        assert choice is None
        return
    assert choice is not None
    assert slots[choice.slot].is_free
    assert slots[choice.source].shared == max(slot.shared for slot in slots)
    taken, free = slots[choice.slot], [slot for slot in slots if slot.is_free]
    if taken.shared < max(slot.shared for slot in free):
        assert taken.known == 0 or taken.used == min(slot.used for slot in free)


def test_a_conversation_continues_where_it_was_and_another_one_spares_it() -> None:
    chat, empty = SlotState(True, 900, 1000, 5), SlotState(True, 0, 0, 0)
    other = SlotState(True, 30, 1000, 5)
    assert choose_slot([empty, chat]) == (1, 1)
    assert choose_slot([empty, other]) == (0, 1)


NEEDS = st.lists(st.integers(1, 9000), min_size=1, max_size=16)


@given(NEEDS, st.lists(st.integers(1, 9000), max_size=16), st.integers(9000, 40_000))
def test_a_layout_has_room_for_all_that_runs_within_its_limit(
    running: list[int], idle: list[int], limit: int
) -> None:
    running = [need for n, need in enumerate(running) if sum(running[: n + 1]) <= limit]
    slots = len(running) + len(idle)
    wanted, kept = choose_layout(running, idle, limit, slots)
    for layout in (wanted, grown(wanted, limit, slots)):
        assert layout.serves(wanted)
        held = [*running, *(idle[number] for number in kept)]
        assert len(held) <= layout.width <= slots
        if layout.is_split:
            assert layout.width * layout.size <= limit
            assert max(held) <= layout.size
        else:
            assert sum(held) <= layout.size <= limit
    if len(running) * (max(running) + CELL_BLOCK) <= limit and len(running) > FEW_SLOTS:
        assert wanted.is_split, "several that run cost each other nothing where that is possible"


def test_what_is_long_and_idle_outlives_a_short_request_and_gives_way_to_a_long_one() -> None:
    assert choose_layout([300], [1000, 200], 8192, 16) == ((3, 1024, True), [0, 1])
    assert choose_layout([300], [5000], 8192, 16) == ((16, 5300, False), [0])
    assert choose_layout([5000], [300], 8192, 16) == ((1, 5120, True), [])
    assert choose_layout([5000, 300], [], 8192, 16) == ((16, 5300, False), [])
    assert choose_layout([300] * 3, [5000], 8192, 16) == ((3, 512, True), [])


@given(st.lists(st.integers(1, 5000), max_size=16), st.integers(1, 9000), st.integers(512, 32768))
def test_alone_a_prompt_always_has_room(held: list[int], tokens: int, limit: int) -> None:
    assert has_room([], tokens, limit)
    if held and has_room(held, tokens, limit):
        assert sum(held) + tokens + MARGIN_TOKENS <= limit


@given(st.lists(st.integers(), unique=True, min_size=1, max_size=8), st.data())
def test_lanes_take_turns(lanes: list[int], data: st.DataObject) -> None:
    last = data.draw(st.none() | st.sampled_from(lanes) | st.just(-(10**9)))
    seen = []
    for _ in lanes:
        last = next_lane(lanes, last)
        seen.append(last)
    assert sorted(seen) == sorted(lanes)  # type: ignore[type-var]
    assert next_lane([], last) is None


@given(st.lists(st.integers(0, 2), max_size=12), st.lists(st.integers(0, 2), max_size=12))
def test_a_common_prefix_is_the_longest(one: list[int], other: list[int]) -> None:
    count = common_prefix(one, other)
    assert one[:count] == other[:count]
    assert one[count : count + 1] != other[count : count + 1] or count == len(one) == len(other)
