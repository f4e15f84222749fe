"""Where settings come from: the file and the environment, checked value by value.

A safety switch fails closed: a value that is neither yes nor no is an error, and so is a variable
that looks like a misspelt switch. Every mistake names its source, in the file with the line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import EnumMeta
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from urllib.parse import urlsplit

import msgspec

from baton.core.errors import ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.sanitiser import one_line
from baton.platform.durable_files import read_ordinary

TRUE_WORDS = frozenset({"1", "true", "yes", "on", "y"})
FALSE_WORDS = frozenset({"0", "false", "no", "off", "n"})

DOLLARS = "US dollars"
"""The description of a text type that also takes a number: an amount of money."""

PREFIX = "BATON_"
OTHER_VARIABLES = frozenset({"BATON_HOME", "BATON_BINARY", "BATON_COMPLETE"})
"""Where Baton's folders are, which file the packaged binary's launcher is, a shell's completion."""

SAFETY_WORDS = (
    *("offline", "network", "private", "privacy", "history", "redact"),
    *("budget", "policy", "ceiling", "limit", "session", "day", "month"),
)
"""A variable with a name like these is meant to hold something back, and must not be ignored."""

_MIN_LIKENESS = 0.75
"""From this likeness on (difflib's ratio, 0 to 1) a word is taken for a misspelt one."""

MAX_FILE_BYTES = 4 * 10**6
"""How large a file of settings may be."""

EntryKinds = Mapping[str, type[msgspec.Struct]]
SettingPath = tuple[str | int, ...]


@frozen_dataclass
class SettingsSource:
    """One source of settings: its tree, and the text that it was parsed from if it has lines."""

    name: str
    tree: dict[str, Any]
    text: str = ""

    def place(self, where: SettingPath = ()) -> str:
        """Return the source's name, with the line on which a setting stands."""
        line = line_of(self.text, where)
        return f"{self.name}, line {line}" if line else self.name

    def has(self, where: SettingPath) -> bool:
        """Whether this source sets what stands there."""
        node: Any = self.tree
        for key in where:
            try:
                node = node[key]
            except (KeyError, IndexError, TypeError):
                return False
        return True


def read_file(file: Path) -> SettingsSource:
    """Read a TOML file; a missing one is empty, but not what a link fails to lead to.

    Raises ConfigError.
    """
    try:
        text = _decode(file, read_ordinary(file, MAX_FILE_BYTES))
    except FileNotFoundError as error:
        if link := next((place for place in (file, *file.parents) if _is_dangling(place)), None):
            what = f"{link} is a link to {link.readlink()}, which isn't there."
            raise ConfigError(what, "Bring that back, or remove the link.") from error
        return SettingsSource(str(file), {})
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror}.", "Check its owner.") from error
    import tomllib

    try:
        return SettingsSource(str(file), tomllib.loads(text), text)
    except ValueError as error:  # also for a number with thousands of digits
        raise ConfigError(f"{file} is not valid TOML: {error}.", "`baton config edit`.") from error
    except RecursionError as error:
        what = f"{file} is not valid TOML: it is nested too deeply."
        raise ConfigError(what, "`baton config edit`.") from error


def _is_dangling(place: Path) -> bool:
    return place.is_symlink() and not os.access(place, os.F_OK)


def _decode(file: Path, raw: bytes) -> str:
    """Return a file's text without the byte-order mark of some editors. Raises ConfigError."""
    if b"\0" in raw or raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        what = f"{file} is not UTF-8 text but UTF-16, which Notepad and PowerShell call Unicode."
        raise ConfigError(what, "Save it as UTF-8.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        what = f"{file} is not UTF-8 text (at line {line})."
        raise ConfigError(what, "Save it as UTF-8.") from error


def read_environment(environ: Mapping[str, str], struct: type[msgspec.Struct]) -> SettingsSource:
    """Turn BATON_LOCAL__THREADS=2 into {"local": {"threads": "2"}}.

    An empty variable is none: BATON_BUDGET__DAY="$LIMIT" must not lift a ceiling. An unknown one
    is left out, unless it looks like a safety switch, in capitals or not: then ConfigError is
    raised.
    """
    tree: dict[str, Any] = {}
    known = {name: where for name, where in _variables(environ) if _is_known(where, struct)}
    for name, value in environ.items():
        if value and name not in known and name not in OTHER_VARIABLES and not _is_key(name):
            _refuse_misspelt_switch(name, struct)
    for name, where in known.items():
        value = environ[name]
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ConfigError(
                f"The variable {name} is not UTF-8 text.", "Set it again or unset it."
            )
        node = tree
        for parent in where[:-1]:
            node = node.setdefault(parent, {})
        node[where[-1]] = value
    return SettingsSource("the environment", tree)


def unknown_variables(environ: Mapping[str, str], struct: type[msgspec.Struct]) -> list[str]:
    """Return the BATON_ variables that set nothing. Raises ConfigError as `read_environment`."""
    read_environment(environ, struct)
    return [name for name, where in _variables(environ) if not _is_known(where, struct)]


def _variables(environ: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the variables that begin like settings, with the setting's place.

    A name that isn't in capitals has none: two spellings of one switch could contradict each other.
    """
    for name, value in environ.items():
        if name.startswith(PREFIX) and value and name not in OTHER_VARIABLES and not _is_key(name):
            where = name.removeprefix(PREFIX)
            yield name, where.lower().split("__") if where == where.upper() else [name]


def _is_key(name: str) -> bool:
    return name.endswith("_API_KEY")


def _is_known(where: Sequence[str], struct: type[msgspec.Struct]) -> bool:
    fields = _fields(struct)
    kind = fields.get(where[0])
    if len(where) == 1:
        return kind is not None
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _is_known(where[1:], kind)
    return get_origin(kind) is dict and len(where) == 2


_BATON_NAME = re.compile(r"baton([^a-z0-9]*)(.*)", re.IGNORECASE | re.DOTALL)


def _refuse_misspelt_switch(name: str, struct: type[msgspec.Struct]) -> None:
    """Raise ConfigError for a name that begins with "baton" and then resembles a safety switch."""
    ours = _BATON_NAME.fullmatch(name)
    if ours is None:
        return
    import difflib

    words = [word for word in re.split(r"[\W_]+", ours[2].lower()) if word]
    candidates = {"".join(words), *(words if ours[1] else ())}
    if not any(
        difflib.get_close_matches(word, SAFETY_WORDS, n=1, cutoff=_MIN_LIKENESS)
        for word in candidates
    ):
        return
    known = [f"{PREFIX}{'__'.join(where).upper()}" for where in _setting_paths(struct)]
    near = difflib.get_close_matches(name.upper(), known, n=1)
    raise ConfigError(
        f"There is no setting {one_line(name)} (in the environment), and it looks like one that"
        " protects you.",
        f"Did you mean {near[0]}? Else unset it." if near else "Unset it.",
    )


def _setting_paths(struct: type[msgspec.Struct]) -> Iterator[tuple[str, ...]]:
    for name, kind in _fields(struct).items():
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield from ((name, *rest) for rest in _setting_paths(kind))
        else:
            yield (name,)


def check_source(
    source: SettingsSource, struct: type[msgspec.Struct], kinds: EntryKinds
) -> dict[str, Any]:
    """Return a source's tree with switches as bools and amounts of money as text.

    `kinds` are the structs of the entries of lists, by their `kind` ("local" where none is given).
    Raises ConfigError for an unknown key, an unknown kind and an unreadable switch.
    """
    return _check_tree(source.tree, struct, kinds, source, ())


def _check_tree(
    tree: Mapping[str, Any],
    struct: type[msgspec.Struct],
    kinds: EntryKinds,
    source: SettingsSource,
    where: SettingPath,
) -> dict[str, Any]:
    fields = _fields(struct)
    found: dict[str, Any] = {}
    for key, value in tree.items():
        here = (*where, key)
        if key not in fields:
            import difflib

            near = difflib.get_close_matches(key, fields, n=1)
            known = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(fields)}."
            place = source.place(here)
            raise ConfigError(f"There is no setting {one_line(key)!r} (in {place}).", known)
        kind = fields[key]
        if isinstance(value, dict) and (inner := _struct_in(kind)) is not None:
            found[key] = _check_tree(value, inner, kinds, source, here)
        elif isinstance(value, list) and get_origin(kind) is tuple:
            found[key] = [
                _check_entry(item, kinds, source, (*here, n)) if isinstance(item, dict) else item
                for n, item in enumerate(value)
            ]
        else:
            found[key] = _check_value(value, kind, source, here)
    return found


def _check_entry(
    entry: dict[str, Any], kinds: EntryKinds, source: SettingsSource, where: SettingPath
) -> dict[str, Any]:
    kind = entry.get("kind", "local")
    if not isinstance(kind, str) or kind not in kinds:
        place = source.place((*where, "kind"))
        raise ConfigError(
            f"There is no kind of worker {one_line(repr(kind), 60)} (in {place}).",
            f"It is one of: {', '.join(kinds)}.",
        )
    rest = {name: given for name, given in entry.items() if name != "kind"}
    return {"kind": kind, **_check_tree(rest, kinds[kind], kinds, source, where)}


def _check_value(value: object, kind: Any, source: SettingsSource, where: SettingPath) -> object:
    if bool in (kind, *get_args(kind)):
        return _read_switch(value, source, where)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return format(Decimal(repr(value)), "f") if number and _is_money(kind) else value


def _read_switch(value: object, source: SettingsSource, where: SettingPath) -> bool:
    word = str(value).strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    name = ".".join(map(str, where))
    raise ConfigError(
        f"The setting {name!r} is neither on nor off (in {source.place(where)}):"
        f" {one_line(repr(value), 60)}.",
        "Write true or false; 1, yes, on, 0, no and off do as well.",
    )


def value_error(
    message: str, sources: Sequence[SettingsSource], struct: type[msgspec.Struct], kinds: EntryKinds
) -> ConfigError:
    """Return the error for what msgspec says of a merged tree, with place and allowed values."""
    what, _, path = message.partition(" - at `")
    if path.startswith("key` in `$."):
        where = _parse_path(path.removeprefix("key` in ").rstrip("`"))
        return ConfigError(
            f"A name in the setting {'.'.join(map(str, where))!r} is wrong: no task is of that kind"
            f" (in {_deciding_place(sources, where)}).",
            f"The kinds are {', '.join(_allowed_values(_key_type(struct, where)))}.",
        )
    path = path.rstrip("`")
    where, name = _parse_path(path), path.removeprefix("$.")
    place, allowed = (
        _deciding_place(sources, where),
        _allowed_values(_type_at(struct, where, kinds)),
    )
    if "enum value" in what and allowed:
        value = what.removeprefix("Invalid enum value").strip()
        return ConfigError(
            f"The setting {name!r} can't be {one_line(value, 60)} (in {place}).",
            f"It is one of: {', '.join(allowed)}.",
        )
    return ConfigError(
        f"The setting {name!r} is wrong (in {place}): {one_line(what)}.",
        "`baton config edit` opens the file.",
    )


def amount_error(
    sources: Sequence[SettingsSource], where: SettingPath, error: ConfigError
) -> ConfigError:
    """Return the error for what isn't an amount of money, with its place."""
    what = (
        f"The setting {'.'.join(map(str, where))!r} is wrong (in {_deciding_place(sources, where)})"
    )
    return ConfigError(f"{what}: {error.message}", error.hint)


def _deciding_place(sources: Sequence[SettingsSource], where: SettingPath) -> str:
    """Return the place of the last source that sets it: the last one rules."""
    for source in reversed(sources):
        if source.has(where):
            return source.place(where)
    return ", ".join(source.name for source in sources if source.tree)


def _parse_path(path: str) -> SettingPath:
    """Turn msgspec's "$.workers[0].top_p" into ("workers", 0, "top_p")."""
    parts = re.findall(r"\.(\w+)|\[(\d+)\]", path)
    return tuple(int(number) if number else name for name, number in parts)


def _type_at(struct: type[msgspec.Struct], where: SettingPath, kinds: EntryKinds) -> Any:
    kind: Any = struct
    for key in where:
        if isinstance(key, int):
            continue
        owner = _struct_in(kind)
        owners = [owner] if owner is not None else list(kinds.values())
        kind = next((_fields(one)[key] for one in owners if key in _fields(one)), None)
    return kind


def _key_type(struct: type[msgspec.Struct], where: SettingPath) -> Any:
    kind = _type_at(struct, where, {})
    return get_args(kind)[0] if get_origin(kind) is dict else None


def _allowed_values(kind: Any) -> list[str]:
    """Return the values that a type allows, if they can be listed."""
    if get_origin(kind) is Literal:
        return list(map(str, get_args(kind)))
    if isinstance(kind, EnumMeta):
        return [str(member.value) for member in kind]  # type: ignore[var-annotated]
    if pattern := _annotation(kind, "pattern"):
        return re.findall(r"\w+", pattern)
    return [choice for inner in get_args(kind) for choice in _allowed_values(inner)]


def _is_money(kind: Any) -> bool:
    return _annotation(kind, "description") == DOLLARS or any(map(_is_money, get_args(kind)))


def _annotation(kind: Any, name: str) -> Any:
    found = (getattr(note, name, None) for note in getattr(kind, "__metadata__", ()))
    return next((value for value in found if value is not None), None)


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    for one in (kind, *get_args(kind)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return one
    return None


def _fields(struct: type[msgspec.Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def merge_tree(into: dict[str, Any], source: Mapping[str, Any]) -> None:
    """Put a source's values over those of `into`, table by table."""
    for key, value in source.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge_tree(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, dict) else value


def inverse_changes(tree: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that take these back; a table that they make stays, empty."""
    inverse: dict[str, Any] = {}
    for key, value in changes.items():
        found = tree.get(key)
        if isinstance(value, Mapping) and isinstance(found, Mapping | None):
            found = inverse_changes(found or {}, value)
        inverse[key] = found
    return inverse


def apply_changes(table: Any, changes: Mapping[str, Any]) -> None:
    """Change a table of tomlkit; None takes a setting out."""
    for key, value in changes.items():
        if isinstance(value, Mapping):
            if not isinstance(table.get(key), Mapping):
                table[key] = {}
            apply_changes(table[key], value)
        elif value is None:
            table.pop(key, None)
        else:
            table[key] = value


_TABLE_HEADER = re.compile(r"(\[{1,2})([^\[\]]+)\]{1,2}\s*(?:#.*)?")
_KEY_LINE = re.compile(
    r"((?:[\w-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[\w-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)


def line_of(text: str, where: SettingPath) -> int:
    """Return the line, from 1, on which a TOML text sets something; 0 where none is found.

    Lines within texts of several lines are read like others, which a message can live with.
    """
    table: SettingPath = ()
    counts: dict[SettingPath, int] = {}
    best, depth = 0, 0
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _TABLE_HEADER.fullmatch(line.strip()):
            table = _split_key(header[2])
            if len(header[1]) == 2:
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            key = table
        elif pair := _KEY_LINE.match(line.strip()):
            key = (*table, *_split_key(pair[1]))
        else:
            continue
        if len(key) > depth and where[: len(key)] == key:
            best, depth = number, len(key)
    return best


def _split_key(dotted: str) -> SettingPath:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))


_ADDRESS = re.compile(r"https?://[^\s\"'`<>\u201c-\u201f\u2018-\u201b]+", re.IGNORECASE)
_EDGES = " \t\r\n\xa0\"'`<>\u201c\u201d\u201e\u2018\u2019"


def plain_address(url: str) -> str:
    """Return an address as it is compared with others: two spellings of one place are equal."""
    bare = url.rstrip("/")
    try:
        parts = urlsplit(bare)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:  # no address at all, which a call to it reports
        return bare
    host = "127.0.0.1" if host == "localhost" else host
    port = port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}{parts.path}"


def check_addresses(entry: Mapping[str, Any], source: SettingsSource, where: SettingPath) -> None:
    """Refuse an entry whose addresses are none, or can't be those of one model: ConfigError."""
    id, urls, slots = entry["id"], entry.get("base_url", ""), entry.get("slots")
    if urls or entry.get("kind") == "server":
        for url in urls if isinstance(urls, list) else [urls]:
            _check_address(id, url, source.place((*where, "base_url")))
    if isinstance(urls, list):
        _check_list(id, urls, source.place((*where, "base_url")))
    count = len(urls) if isinstance(urls, list) else 1
    if isinstance(slots, list) and len(slots) != count:
        place = source.place((*where, "slots"))
        raise ConfigError(
            f"The worker {id!r} has {count} addresses and slots for {len(slots)} (in {place}).",
            "Write one number for all of them, or a list with one for each.",
        )


def _check_address(id: str, url: object, place: str) -> None:
    """Refuse an address without http://, or with quotation marks or spaces in it."""
    if not isinstance(url, str) or _ADDRESS.fullmatch(url):
        return
    bare = re.sub(r"^(https?):/*", r"\1://", url.strip(_EDGES))
    right = bare if "://" in bare else f"http://{bare}"
    meant = (
        f"Write {right}" if _ADDRESS.fullmatch(right) else "Write it like http://10.0.0.2:8000/v1"
    )
    raise ConfigError(
        f"The worker {id!r} has the address {one_line(repr(url), 80)} (in {place}), and an address"
        " begins with http:// or https:// and holds no spaces or quotation marks.",
        f"{one_line(meant, 120)}.",
    )


def _check_list(id: str, urls: Sequence[str], place: str) -> None:
    if not urls:
        raise ConfigError(
            f"The list of addresses of the worker {id!r} is empty (in {place}).",
            'Write at least one: base_url = ["http://10.0.0.2:8000/v1"]',
        )
    plain = [plain_address(url) for url in urls]
    twice = next((url for n, url in enumerate(urls) if plain[n] in plain[:n]), None)
    if twice is not None:
        raise ConfigError(
            f"The worker {id!r} has the address {one_line(twice, 80)} twice (in {place}).",
            "Name each address once; `slots` says how many calls it takes.",
        )
    paths = dict.fromkeys(url.partition("://")[2].partition("/")[2] for url in plain)
    if len(paths) > 1:
        named = " and ".join(one_line(f"/{path}", 40) for path in list(paths)[:2])
        raise ConfigError(
            f"The addresses of the worker {id!r} have different paths, {named} (in {place}).",
            "All of them serve the same model in the same way; make another worker of the others.",
        )
