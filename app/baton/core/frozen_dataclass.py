"""Frozen dataclasses that cost little to define: a constructor is compiled at its first use.

The standard library compiles six methods of each frozen dataclass when its module is imported: 0.9
to 1.3 ms on a slow core, where this takes 0.1. A `baton ask` imports 165 of them and makes objects
of a third.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

Values = Callable[[Any], object]
"""Returns an object's values: one alone as it is, several as a tuple."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen_dataclass(cls: type[T]) -> type[T]:
    """Make a class what `@dataclass(frozen=True, slots=True)` makes of it."""
    cls.__doc__ = cls.__doc__ or cls.__name__  # else `dataclass` works out a signature for it
    made = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    compared = [each for each in _fields(made) if each.compare]
    methods = {
        "__init__": _LateInit(made),
        "__repr__": _show_fields,
        "__eq__": _comparison(_values_of(compared)),
        "__hash__": _hashing(_values_of([each for each in compared if each.hash is not False])),
        "__setattr__": _refuse_assignment,
        "__delattr__": _refuse_deletion,
        "__getstate__": _read_state,
        "__setstate__": _write_state,
    }
    for name in methods.keys() - cls.__dict__.keys():
        setattr(made, name, methods[name])
    return made


def _fields(cls: Any) -> tuple[Field[Any], ...]:
    return fields(cls)


class _LateInit:
    """Stands where a class has its `__init__`, and compiles that when it is first looked up."""

    def __init__(self, cls: type) -> None:
        self._cls = cls

    def __get__(self, instance: object, owner: type) -> Callable[..., None]:
        compiled: Any = _compile_init(self._cls)
        setattr(self._cls, "__init__", compiled)  # noqa: B010 (to mypy, a method isn't a variable)
        bound: Callable[..., None] = compiled.__get__(instance, owner)
        return bound


def _compile_init(cls: type) -> Callable[..., None]:
    """Return the constructor that the standard library would write."""
    known: dict[str, object] = {"_set": object.__setattr__, "_MISSING": MISSING}
    heads: list[str] = ["self"]
    named_heads: list[str] = []
    body: list[str] = []
    for each in _fields(cls):
        name, head, value = each.name, each.name, each.name
        if each.default_factory is not MISSING:
            known[f"_make_{name}"] = each.default_factory
            head = f"{name}=_MISSING"
            value = f"_make_{name}() if {name} is _MISSING else {name}"
        elif each.default is not MISSING:
            known[f"_default_{name}"] = each.default
            head = f"{name}=_default_{name}"
        if each.init:
            (named_heads if each.kw_only else heads).append(head)
        elif each.default_factory is not MISSING:
            value = f"_make_{name}()"
        elif each.default is not MISSING:
            value = f"_default_{name}"
        else:
            continue  # __post_init__ sets it
        body.append(f"  _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("  self.__post_init__()")
    if named_heads:
        heads += ["*", *named_heads]
    lines = [f"def create({', '.join(known)}):", f" def __init__({', '.join(heads)}):"]
    made: dict[str, Any] = {}
    exec("\n".join([*lines, *body, "  pass", " return __init__"]), _globals_of(cls), made)
    init = made["create"](**known)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {f.name: f.type for f in _fields(cls) if f.init} | {"return": None}
    compiled: Callable[..., None] = init
    return compiled


def _globals_of(cls: type) -> dict[str, Any]:
    """Return what the annotations of a class may name."""
    return vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}


def _values_of(chosen: Sequence[Field[Any]]) -> Values:
    return attrgetter(*(each.name for each in chosen)) if chosen else lambda _: ()


def _comparison(values: Values) -> Callable[[object, object], bool]:
    def compare(self: object, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return compare


def _hashing(values: Values) -> Callable[[object], int]:
    return lambda self: hash(values(self))


def _show_fields(self: object) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in _fields(self) if each.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_assignment(_: object, name: str, __: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(_: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _read_state(self: object) -> list[object]:
    return [getattr(self, each.name) for each in _fields(self)]


def _write_state(self: object, state: Sequence[object]) -> None:
    for each, value in zip(_fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
