"""A frozen dataclass behaves as the standard library's, whenever its constructor is compiled."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from typing import get_type_hints

import msgspec
import pytest

from baton.core.frozen_dataclass import frozen_dataclass


@frozen_dataclass
class Ours:
    """An example."""

    name: str
    size: int = 1
    words: Mapping[str, int] = field(default_factory=dict, hash=False)
    secret: str = field(default="", repr=False, compare=False)
    length: int = field(default=0, init=False)
    last: str = field(default="z", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.name))


@dataclass(frozen=True, slots=True)
class Theirs:
    """An example."""

    name: str
    size: int = 1
    words: Mapping[str, int] = field(default_factory=dict, hash=False)
    secret: str = field(default="", repr=False, compare=False)
    length: int = field(default=0, init=False)
    last: str = field(default="z", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "length", len(self.name))


def test_it_is_made_shown_and_compared_as_the_standard_one() -> None:
    one, other = Ours("a", words={"b": 1}, secret="s"), Theirs("a", words={"b": 1}, secret="s")
    assert repr(one) == repr(other).replace("Theirs", "Ours")
    assert asdict(one) == asdict(other)
    assert [f.name for f in fields(one)] == [f.name for f in fields(other)]
    assert Ours.__match_args__ == Theirs.__match_args__
    assert all(map(is_dataclass, (Ours, one)))
    known = [inspect.signature(kind).parameters.values() for kind in (Ours, Theirs)]
    assert [[(p.name, p.kind) for p in one] for one in known] == [
        [(p.name, p.kind) for p in known[1]]
    ] * 2
    assert get_type_hints(Ours.__init__) == get_type_hints(Theirs.__init__)
    assert one == Ours("a", words={"b": 1}) != Ours("a", 2)
    assert one not in list[object]([other])
    assert hash(one) == hash(Ours("a", words={"c": 2}, secret="t"))
    assert Ours("a").words is not Ours("a").words


def test_it_cannot_be_changed_but_replaced_and_copied() -> None:
    one = Ours("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'size'"):
        one.size = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'size'"):
        del one.size
    assert not hasattr(one, "__dict__")
    assert replace(one, size=2) == Ours("a", 2)
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    with pytest.raises(TypeError, match=r"Ours.__init__\(\) missing 1 required positional"):
        Ours()  # type: ignore[call-arg]


@frozen_dataclass
class Point:
    x: int

    def __repr__(self) -> str:
        return f"<{self.x}>"


@frozen_dataclass
class Place(Point):
    y: int = 0


@frozen_dataclass
class Nothing:
    """It has no fields."""


def test_it_can_be_inherited_and_keeps_methods_of_its_own() -> None:
    assert repr(Point(1)) == "<1>"
    assert Place(1, 2) == Place(1, y=2)
    assert (Place(1).x, Place(1).y) == (1, 0)
    assert Nothing() == Nothing()
    assert hash(Nothing()) == hash(Nothing())


def test_messages_can_hold_it() -> None:
    assert msgspec.json.decode(msgspec.json.encode(Ours("ab")), type=Ours) == Ours("ab")
