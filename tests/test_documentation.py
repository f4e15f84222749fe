"""The pages in docs/ name every setting, command, JSON field and event that there is, once."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from baton.platform.secrets import PROVIDERS
from baton.workers.cloud.provider_models import provider_refusals

ROOT = Path(__file__).parent.parent
DATA = ROOT / "tests" / "inventory" / "data"
CODE = re.compile(r"`([^`]+)`")
LINK = re.compile(r"\]\(#(\w+)\)")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")


def inventory(name: str) -> list[dict[str, str]]:
    return json.loads((DATA / name).read_text("utf-8"))  # type: ignore[no-any-return]


def rows(text: str) -> Iterator[list[str]]:
    """The cells of each table row, heads and rulers left out."""
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        else:
            yield from table[2:]
            table = []


def sections(text: str, mark: str) -> dict[str, str]:
    parts = re.split(rf"^{mark} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def names(cell: str) -> list[str]:
    return CODE.findall(cell)


def test_every_setting_is_in_one_row() -> None:
    top, workers = page("settings.md").split("\n## Workers")
    documented = Counter(name for row in rows(top) for name in names(row[0]))
    documented_keys = Counter(
        name for row in rows(workers.split("\n## ")[0]) for name in names(row[0])
    )
    settings = {row["key"] for row in inventory("settings.json")}
    keys = {key.split("].")[1] for key in settings if key.startswith("workers[")}
    assert documented == Counter({key for key in settings if not key.startswith("workers[")})
    assert documented_keys == Counter(keys)


def test_a_workers_keys_name_the_kinds_that_have_them() -> None:
    workers = page("settings.md").split("\n## Workers")[1].split("\n## ")[0]
    kinds = defaultdict(set)
    for row in inventory("settings.json"):
        if found := re.fullmatch(r"workers\[(\w+)\]\.(\w+)", row["key"]):
            kinds[found[2]].add(found[1])
    for key, kind_cell, *_ in rows(workers):
        expected = {"local", "cloud", "server"} if kind_cell == "all" else {*kind_cell.split(", ")}
        assert kinds[names(key)[0]] == expected, key


def test_every_command_is_in_one_row() -> None:
    commands = sections(page("scripting.md"), "##")["Commands"]
    documented = Counter(name for row in rows(commands) for name in names(row[0]))
    every = {row["command"] for row in inventory("commands.json") if "command" in row}
    leaves = {one for one in every if not any(other.startswith(f"{one} ") for other in every)}
    assert documented == Counter({"baton", *leaves})


SCRIPTING = page("scripting.md")
OBJECTS = sections(sections(SCRIPTING, "##")["JSON"], "###")


def documented_fields(text: str, prefix: str = "") -> Iterator[str]:
    """The fields of a section's tables, those of the objects that it links to included."""
    for row in rows(text):
        for name in names(row[0]):
            yield prefix + name
            for link in LINK.findall(row[1]):
                if link != "events":
                    yield from documented_fields(OBJECTS[link.capitalize()], f"{prefix}{name}.")


EVENTS = {
    name: {*names(row[2])}
    for row in rows(sections(SCRIPTING, "##")["Events"])
    for name in names(row[0])
}


def printed_fields() -> dict[str, set[str]]:
    """What each command prints, by the heading that documents the command: `a`, `a.b`, `a[].b`."""
    fields = defaultdict(set)
    files = sorted({file.name for file in DATA.glob("outputs_*.json")} - {"outputs_wrong.json"})
    for row in (row for name in files for row in inventory(name)):
        command = row["command"]
        for heading in OBJECTS:
            shown = any(f"{command} ".startswith(f"{head} ") for head in names(heading))
            if shown and "field" in row and not re.search("--(events|otel)", command):
                fields[heading].add(re.sub(r"^(?:\[\])*\.?", "", row["field"].lstrip("$")))
    return fields


def is_documented(field: str, documented: set[str]) -> bool:
    if event := re.search(r"events\[(\w+)\]\.?(?:data\.?)?(.*)", field):
        return {*re.findall(r"\w+", event[2])} <= {
            *EVENTS[event[1]],
            *SCORES,
            "at",
            "event",
            "kind",
        }
    plain = {field, f"{field}[]", field.removesuffix("[]"), re.sub(r"\.(?:from|value)$", "", field)}
    return bool(plain & documented) or any(
        other.startswith((f"{field}.", f"{field}[")) for other in documented
    )


@pytest.mark.parametrize("heading", sorted(printed_fields()))
def test_every_json_field_is_documented(heading: str) -> None:
    documented = {*documented_fields(OBJECTS[heading])}
    if "#worker" in OBJECTS[heading].split("|")[0]:
        documented |= {*documented_fields(OBJECTS["Worker"])}
    fields = printed_fields()[heading] - {""}
    assert not [field for field in sorted(fields) if not is_documented(field, documented)]


SCORES = {"chance", "difficulty", "parts", "plan"}  # parts: in older histories


def test_every_event_and_its_fields_are_documented() -> None:
    for row in inventory("events.json"):
        if "field" in row and row["field"] != "at":
            assert row["field"] in EVENTS[row["event"]], row
    assert {row["event"] for row in inventory("events.json")} == {*EVENTS}


def test_every_provider_is_listed_or_refused() -> None:
    listed, refused = page("cloud-providers.md").split("\n## Refused")
    assert {name for row in rows(listed.split("\n## ")[0]) for name in names(row[1])} == {
        *PROVIDERS
    }
    known = {name for row in rows(refused.split("\n## ")[0]) for name in names(row[0])}
    assert known - {"vertex_ai"} == {*provider_refusals()}


def test_links_lead_somewhere() -> None:
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for target, anchor in re.findall(
            r"\]\((?!http)([^)#]*)#?([^)]*)\)", path.read_text("utf-8")
        ):
            other = (path.parent / target).resolve() if target else path
            assert other.exists(), f"{path.name}: {target}"
            if anchor and other.suffix == ".md":
                heads = re.findall(r"^#+ (.+)$", other.read_text("utf-8"), flags=re.MULTILINE)
                slugs = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
                assert anchor in slugs, f"{path.name}: {target}#{anchor}"


def test_files_that_pages_name_are_there() -> None:
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("models/*/*.md")):
        if path.name != "CHANGELOG.md":
            for name in re.findall(r"`([\w.-]+(?:/[\w.-]+)+\.py)`", path.read_text("utf-8")):
                places = (ROOT, ROOT / "app" / "baton", ROOT / "packaging", path.parent)
                assert any((place / name).exists() for place in places), f"{path.name}: {name}"


def test_every_package_has_a_line_for_those_who_change_it() -> None:
    text = (ROOT / "AGENTS.md").read_text("utf-8")
    product, others, fitted = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    listed = [names(row[0])[0] for row in rows(product)]
    package = ROOT / "app" / "baton"
    folders = {path.parent.relative_to(package).as_posix() for path in package.rglob("*.py")}
    assert sorted(listed) == sorted(folders), "AGENTS.md has a row for each folder with modules."
    assert {"docs", "examples", "packaging", "scripts", "tests"} <= {
        names(row[0])[0] for row in rows(others)
    }
    for row in (*rows(product), *rows(others), *rows(fitted)):
        for name in names(row[-1]):
            path = ROOT / name.split()[0]
            assert path.exists(), f"AGENTS.md: {name}"
