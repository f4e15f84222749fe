"""Describes types, command trees, JSON values and databases as lines that can be compared.

Nothing here knows Baton, and no line holds the name of a module or of a class that isn't part of
an interface.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
import types
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from textual.binding import Binding

_BOUNDS = ("ge", "gt", "le", "lt", "pattern", "description")


def lines(records: Iterable[object]) -> str:
    """Return a JSON list with one record on each line: a diff then shows whole records."""
    return "[\n" + ",\n".join(json.dumps(r, ensure_ascii=False) for r in records) + "\n]\n"


def type_text(kind: Any) -> str:
    """Return the structure of a type, without the names of classes."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return type_text(args[0]) + "".join(map(_bounds, kind.__metadata__))
    if origin is typing.Literal:
        return " | ".join(json.dumps(value) for value in args)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(type_text, args))
    if origin is tuple and args[-1] is Ellipsis:
        return f"[{type_text(args[0])}, ...]"
    if origin in (tuple, list):
        return f"[{', '.join(map(type_text, args))}]"
    if origin is not None:
        return f"{{{': '.join(map(type_text, args))}}}"
    if isinstance(kind, type):
        return _class_text(kind)
    return str(kind)


def _class_text(kind: type) -> str:
    if kind is type(None):
        return "null"
    if issubclass(kind, enum.Enum):
        return " | ".join(json.dumps(member.value) for member in kind)
    if dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct):
        inner = (f"{name}: {type_text(one)}" for name, one in hints(kind).items())
        return f"{{{', '.join(inner)}}}"
    return kind.__name__


def _bounds(note: object) -> str:
    found = ((name, getattr(note, name, None)) for name in _BOUNDS)
    options = [f"{name}={value}" for name, value in found if value is not None]
    return f" ({', '.join(options)})" if options else ""


def hints(kind: type) -> dict[str, Any]:
    """Return the types of a class's fields, in their order."""
    known = typing.get_type_hints(kind, include_extras=True)
    if issubclass(kind, msgspec.Struct):
        return {field.name: known[field.name] for field in msgspec.structs.fields(kind)}
    return {field.name: known[field.name] for field in dataclasses.fields(cast(Any, kind))}


def example(kind: Any, given: Mapping[Any, Any]) -> Any:
    """Return a value of a type: the given one, else a choice's last, else a union's first."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and kind in given:
        return given[kind]
    if origin in (typing.Union, types.UnionType):
        return example(args[0], given)
    if origin is typing.Literal:
        return args[-1]
    if origin is tuple:
        return tuple(example(one, given) for one in args if one is not Ellipsis)
    if origin is dict:
        return {example(args[0], given): example(args[1], given)}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return list(kind)[-1]
    plain: dict[Any, Any] = {str: "text", int: 2, float: 1.5, bool: True, type(None): None}
    return plain[kind]


def setting_records(
    struct: type[msgspec.Struct], place: str = "", tagged: Mapping[str, type] = {}
) -> Iterator[dict[str, Any]]:
    """Yield every key of a tree of settings with its type and default.

    `tagged` are the kinds of entries of the list `workers`.
    """
    for field in msgspec.structs.fields(struct):
        kind = hints(struct)[field.name]
        where = f"{place}{field.name}"
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from setting_records(kind, f"{where}.")
        elif field.name == "workers":
            for tag, entry in tagged.items():
                yield from setting_records(entry, f"workers[{tag}].")
        else:
            yield {"key": where, "type": type_text(kind), "default": _default(field)}


def leaves(tree: Any, keys: Collection[str], place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of the settings with these keys."""
    for name, value in tree.items():
        where = f"{place}{name}"
        if where in keys:
            yield where, value
        elif isinstance(value, dict):
            yield from leaves(value, keys, f"{where}.")


def _default(field: Any) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default)
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.to_builtins(field.default_factory())
    return "(required)"


def field_default(field: Any) -> Any:
    """Return the default of a dataclass's field."""
    if field.default is not dataclasses.MISSING:
        return field.default
    return "(required)" if field.default_factory is dataclasses.MISSING else field.default_factory()


def own_bindings(kind: type, package: str) -> Iterator[Sequence[Any]]:
    """Yield the key bindings of every widget and screen of a package."""
    children: list[type] = kind.__subclasses__()
    for child in children:
        if child.__module__.partition(".")[0] == package and child.__dict__.get("BINDINGS"):
            yield child.__dict__["BINDINGS"]
        yield from own_bindings(child, package)


def binding_records(bindings: Sequence[Any]) -> list[dict[str, Any]]:
    """Return key bindings as records."""
    made = [one if isinstance(one, Binding) else Binding(*one) for one in bindings]
    return [
        {
            "id": one.id,
            "key": one.key,
            "action": one.action,
            "in_footer": one.show,
            "priority": one.priority,
        }
        for one in made
    ]


def command_records(
    command: click.Command,
    words: Sequence[str],
    aliases: Mapping[str, str],
    parent: click.Context | None = None,
) -> Iterator[dict[str, Any]]:
    """Yield a command, its parameters and all commands below it, depth first."""
    context = click.Context(command, parent, words[-1], **command.context_settings)
    path = " ".join(words)
    yield {
        "command": path,
        "hidden": command.hidden,
        "help_names": command.get_help_option_names(context),
    }
    for parameter in command.get_params(context):
        yield {"command": path, **_parameter(parameter, context)}
    if not isinstance(command, click.Group):
        return
    names = command.list_commands(context)
    for alias, name in aliases.items():
        found = None if alias in names else command.get_command(context, alias)
        if found is not None:
            yield {"command": path, "alias": alias, "of": name, "same": found.name == name}
    for name in names:
        inner = command.get_command(context, name)
        assert inner is not None, f"{path} lists {name}"
        yield from command_records(inner, [*words, name], aliases, context)


def _parameter(parameter: click.Parameter, context: click.Context) -> dict[str, Any]:
    """Return what a parameter is; what is off, empty or none is left out, but for its default."""
    info = dict(parameter.to_info_dict())
    info.pop("help", None)
    kind = {k: v for k, v in info.pop("type").items() if k != "param_type" and v is not None}
    described: dict[str, Any] = {
        info.pop("param_type_name"): " ".join(parameter.opts),
        "metavar": parameter.make_metavar(context),
        "default": _plain(info.pop("default")),
        "type": kind,
        "completes": parameter._custom_shell_complete is not None,
    }
    rest = {name: _plain(info[name]) for name in info if name not in ("opts", "name")}
    return described | {
        name: value for name, value in rest.items() if value not in (None, False, [])
    }


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return f"({value.name.lower()})"
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else f"({value})"


def shape_records(value: Any, varying: Sequence[str] = (), place: str = "$") -> dict[str, str]:
    """Return the type of every field of a JSON value, by its place; items of a list are as one.

    Fields named in `varying` differ between machines: only that they are there is said.
    """
    found: dict[str, set[str]] = {}
    counts: dict[str, int] = {}
    _collect(value, varying, place, found, counts)
    return {where: _kinds(where, found, counts) for where in sorted(found)}


def objects_in(value: Any, place: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object of a JSON value with its place, those of lists apart from their parent."""
    if isinstance(value, dict):
        lists = {name: one for name, one in value.items() if _has_objects(one)}
        yield place, {name: one for name, one in value.items() if name not in lists}
        for name, items in lists.items():
            yield from objects_in(items, f"{place}.{name}")
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from objects_in(item, f"{place}[{number}]")


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, dict) for item in value)


def _collect(
    value: Any,
    varying: Sequence[str],
    place: str,
    found: dict[str, set[str]],
    counts: dict[str, int],
) -> None:
    counts[place] = counts.get(place, 0) + 1
    found.setdefault(place, set()).add(_kind(value))
    if isinstance(value, dict):
        for name, item in value.items():
            where = f"{place}.{name}"
            if name in varying:
                found[where] = {"differs between machines"}
                counts[where] = counts.get(where, 0) + 1
            else:
                _collect(item, varying, where, found, counts)
    elif isinstance(value, list):
        for item in value:
            _collect(item, varying, f"{place}[{_name(item)}]", found, counts)


def _name(item: Any) -> str:
    """Return the name of an event in a list, by which its fields are kept apart."""
    if not isinstance(item, dict):
        return ""
    return str(item.get("event") or ("data" in item and item.get("kind")) or "")


def _kinds(where: str, found: Mapping[str, set[str]], counts: Mapping[str, int]) -> str:
    parent, _, name = where.rpartition(".")
    sometimes = bool(name) and not name.endswith("]") and counts[where] < counts.get(parent, 0)
    return " | ".join(sorted(found[where])) + (" (not always)" if sometimes else "")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "text"
        case list():
            return "list"
    return "object"


_CLASS = re.compile(r"^ *class ([A-Za-z]\w*)\((\w+)", re.MULTILINE)


def classes_below(known: Collection[str], files: Iterable[Path]) -> list[tuple[str, str]]:
    """Return the public classes of these files whose base is a known one, each with its base."""
    pairs = [pair for file in files for pair in _CLASS.findall(file.read_text("utf-8"))]
    return sorted({(name, base) for name, base in pairs if base in known and name not in known})


SCHEMA_QUERY = """SELECT type, name, tbl_name, sql FROM sqlite_master
    WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"""


def schema_records(connection: Any) -> Iterator[dict[str, Any]]:
    """Yield every table, index, trigger and view of a database, and every column."""
    for row in connection.execute("SELECT name FROM migrations ORDER BY rowid"):
        yield {"migration": row[0]}
    for pragma in ("user_version", "application_id", "journal_mode", "page_size", "auto_vacuum"):
        yield {"pragma": pragma, "value": connection.execute(f"PRAGMA {pragma}").fetchone()[0]}
    for kind, name, table, sql in map(tuple, connection.execute(SCHEMA_QUERY).fetchall()):
        yield {kind: name, "on": table, "sql": " ".join((sql or "").split())}
        if kind not in ("table", "view"):
            continue
        for column in connection.execute(f"PRAGMA table_xinfo('{name}')").fetchall():
            _, column_name, declared, required, default, key, hidden = tuple(column)
            yield {
                kind: name,
                "column": column_name,
                "type": declared,
                "not_null": bool(required),
                "default": default,
                "key": key,
                "hidden": hidden,
            }
        for foreign in connection.execute(f"PRAGMA foreign_key_list('{name}')").fetchall():
            yield {kind: name, "foreign_key": list(tuple(foreign)[2:])}
