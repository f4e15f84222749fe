"""How the code base is cut: rules for names and words that `scripts/check` enforces, and figures.

structure.py check            every rule, one line for each place that breaks it
structure.py sizes [--write]  code lines and files of each folder beside the committed; renew these
structure.py figures [TREE]   modules, lines, doubled names, inheritance, cycles of a checkout
structure.py subject FILE     the subject of the commit message in a file: git's hook `commit-msg`
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import grimp

ROOT = Path(__file__).resolve().parent.parent

SAME_ROLE = {
    "budget": "a command, and what the chat does of it",
    "main": "the first module of a child process",
    "messages": "what a slice and its child process send each other",
    "ports": "the Protocols of core, and those of a slice",
    "queries": "what is read from a slice's database",
    "schema": "the migrations of a slice's database",
    "worker": "a kind of worker",
}
"""Names that more than one module may have, and the role that these modules share."""

BANNED_MODULES = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
NOT_NOUNS = re.compile(r"^_?(?!framing|onboarding|sampling|serving)[a-z]+(ing|ed|ly)$")
BANNED_WORDS = re.compile(
    r"\b(?:told|anew|mend(?:s|ed|ing)?|whoever|fell over|afar|nonsense)\b", re.IGNORECASE
)
"""Words that have no use in this code base but the one that STYLE forbids."""

TICS = {
    re.compile(pattern, re.IGNORECASE): remedy
    for pattern, remedy in (
        (
            r"(?<!there )\b(?:is|are|was|were) (?-i:no) (?!(?:longer|more|less|one)\b)(?=[a-z\d])",
            "isn't a",
        ),
        (r"\bnothing of (?:it|them|this|that)\b", "none of it"),
        (
            r"\b(?:the|a|this|that|each|another) person(?:'s)?\b",
            "the user (on the screen: you)",
        ),
        (r"(?<!['\"`\u201c])\b(?:go(?:es|ing|ne)?|went) on\b", "continues"),
        (r"\b(?:comes?|came|coming) to\b", "results in, is"),
        (r"\b(?:lies?|lain|lying)\b(?<!mirror that lies)", "is, stands"),
        (r"\bplay(?:s|ed|ing)?\b(?! money)", "run"),
        (r"\bof (?:(?:an?|the|this|another) [\w-]+|Baton|litellm)'s(?=[.,;:)])", "of a ..."),
    )
}
"""Habits of phrasing that STYLE forbids, and what to write."""

PUBLIC_NAMES = re.compile(r"[\"`]mend[\"`]|go_on", re.IGNORECASE)
"""A field of JSON and an action of the keys, which people's own files name."""

MODEL_PROMPTS = {"literature.py", "ultra.py"}
"""Modules with prompts whose effect was measured, so that their words stay."""

TEMPLATES = "app/baton/workers/templates"
"""Files with such prompts, and a line for people: `about`."""

SOURCES = ("app", "docs", "examples", "models", "packaging", "scripts", "tests")
"""Folders whose texts are searched for these words, beside the pages at the root."""

_NO_CODE = {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}

TEXT_SUFFIXES = {".c", ".h", ".md", ".ps1", ".py", ".sh", ".tcss", ".toml"}

NOT_PROSE = {
    "CHANGELOG.md": "what was said of earlier versions stays",
    "app/baton/bench/conductor_episodes.toml": "measured prompts",
    "app/baton/core/reading/lexicon": "words of requests",
    "app/baton/workers/tools/computation/lexicon": "words of requests",
    "app/baton/workers/tools/computation/relations.toml": "words of requests",
    "docs/lab/everyday-prompts.md": "prompts and answers as they were",
    "scripts/structure.py": "these rules",
    "scripts/training/router/checkable_questions.py": "questions that answers were measured on",
    "tests/test_structure.py": "what these rules refuse",
}
"""Files and folders that aren't searched, and why."""

MAX_SMALL_LINES = 80

MAX_SUBJECT_CHARS = 72
"""Of a commit's subject: what `git log` shows in a line."""

SIZES = Path("scripts", "data", "sizes.toml")
"""The committed size of each folder, so that growth is a decision that a reviewer sees."""

MAX_GROWTH = 0.02
MAX_SLACK = 0.1
"""How much smaller a folder may be than its committed size: what it could grow unseen."""

NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}
"""Tokens that don't make a line a line of code."""

DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Problem(NamedTuple):
    """A place that breaks a rule."""

    path: Path
    line: int
    text: str


def main() -> int:
    """Print the problems, the sizes or the figures; 1 if a rule is broken."""
    command, *rest = sys.argv[1:] or ["check"]
    if command == "sizes":
        print(f"{'folder':30} {'lines':>6} {'files':>4} {'change':>11}", *size_rows(), sep="\n")
        if rest == ["--write"]:
            write_sizes()
        return 0
    if command == "figures":
        for name, value in figures(Path(rest[0]) if rest else ROOT).items():
            print(f"{name:58} {value}")
        return 0
    if command == "subject":
        first = Path(rest[0]).read_text("utf-8").partition("\n")[0]
        return _report_subjects([] if first.startswith("Merge ") else [first])
    code = _report_subjects(branch_subjects())
    found = [*module_names(), *words(), *cycles(), *unlisted_libraries(), *size_changes()]
    for problem in found:
        print(f"{problem.path.relative_to(ROOT)}:{problem.line}: {problem.text}")
    return 1 if found else code


def modules(tree: Path = ROOT) -> list[Path]:
    """The product's modules, without packages' `__init__`."""
    found = (tree / "app" / "baton").rglob("*.py")
    return sorted(path for path in found if path.name != "__init__.py")


def module_names() -> Iterator[Problem]:
    """Modules whose name is banned, no noun, or taken."""
    places = defaultdict(list)
    for path in modules():
        places[path.stem].append(path)
        if path.stem in BANNED_MODULES:
            yield Problem(path, 1, f"`{path.stem}` names no thing")
        elif NOT_NOUNS.match(path.stem):
            yield Problem(path, 1, f"`{path.stem}` is no noun")
    for stem, paths in places.items():
        if len(paths) > 1 and stem not in SAME_ROLE and stem != "__main__":
            for path in paths[1:]:
                yield Problem(path, 1, f"`{paths[0].relative_to(ROOT)}` has this name already")
    for stem in SAME_ROLE:
        if len(places[stem]) < 2:
            yield Problem(
                Path(__file__).resolve(), 1, f"SAME_ROLE has `{stem}`, which modules don't share"
            )


def words(tree: Path = ROOT) -> Iterator[Problem]:
    """Banned words and tics in names, comments, docstrings, messages and documentation.

    `mend` stays as the name of a JSON field.
    """
    for name in _texts(tree):
        path = tree / name
        for number, line in enumerate(_lines_for_people(path, name), 1):
            text = PUBLIC_NAMES.sub("", line).replace("_", " ")
            for match in BANNED_WORDS.finditer(text):
                yield Problem(path, number, f"write another word than `{match[0]}`")
            for tic, remedy in TICS.items():
                if (phrase := tic.search(text)) is not None:
                    yield Problem(path, number, f"write `{remedy}` instead of `{phrase[0]}`")


def _texts(tree: Path) -> Iterator[str]:
    """Yield the files that a person reads, without data."""
    paths = [*tree.glob("*.md"), *(path for name in SOURCES for path in (tree / name).rglob("*"))]
    for path in sorted(paths):
        name = path.relative_to(tree).as_posix()
        if (
            path.suffix in TEXT_SUFFIXES
            and path.name not in MODEL_PROMPTS
            and not {"data", "__snapshots__"}.intersection(name.split("/"))
            and not any(_is_below(name, place) for place in NOT_PROSE)
        ):
            yield name


def _is_below(name: str, place: str) -> bool:
    return name == place or name.startswith(f"{place}/")


def _lines_for_people(path: Path, name: str) -> list[str]:
    """Return the lines of a file; those with a template's prompts are empty.

    Of a test, without its strings: they are prompts, and what others write.
    """
    lines = path.read_text("utf-8").splitlines()
    if _is_below(name, "tests") and path.suffix == ".py":
        return _lines_without_strings(path, lines)
    if _is_below(name, TEMPLATES):
        return [line if line.startswith("about") else "" for line in lines]
    return lines


def _lines_without_strings(path: Path, lines: list[str]) -> list[str]:
    """Return a module's lines without the strings in its code; docstrings stay."""
    begins_line = True
    with tokenize.open(path) as source:
        for token in tokenize.generate_tokens(source.readline):
            if token.type == tokenize.STRING and not begins_line:
                (first, start), (last, end) = token.start, token.end
                for number in range(first, last + 1):
                    line = lines[number - 1]
                    kept = line[:start] if number == first else ""
                    rest = line[end:] if number == last else ""
                    lines[number - 1] = kept.ljust(len(line) - len(rest)) + rest
            elif token.type not in _NO_CODE:
                begins_line = token.type == tokenize.NEWLINE
    return lines


def cycles() -> Iterator[Problem]:
    """Groups of modules that import each other, imports inside functions counted."""
    for group in import_cycles(ROOT):
        path = ROOT / "app" / Path(*group[0].split(".")).with_suffix(".py")
        yield Problem(path, 1, "these import each other: " + ", ".join(group))


def unlisted_libraries() -> Iterator[Problem]:
    """Libraries that the product imports, and no contract of import-linter restricts."""
    file = ROOT / "pyproject.toml"
    contracts = tomllib.loads(file.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    listed = {name for one in contracts for name in one.get("forbidden_modules", ())}
    graph = grimp.build_graph("baton", include_external_packages=True, cache_dir=None)
    for name in sorted(graph.modules - listed - sys.stdlib_module_names):
        if not name.startswith("baton"):
            yield Problem(file, 1, f"no contract says who may import `{name}`")


def import_cycles(tree: Path, *, typing_too: bool = True) -> list[list[str]]:
    """Strongly connected groups of more than one module (Tarjan, 1972), packages left out.

    A package's `__init__` only hands on names, so that its imports count for the modules that it
    takes them from.
    """
    graph = _graph(tree, typing_too)
    names = [name for name in graph.modules if not _is_package(tree, name)]
    edges = {
        name: [
            other
            for other in graph.find_modules_directly_imported_by(name)
            if not _is_package(tree, other)
        ]
        for name in names
    }
    return [sorted(group) for group in _connected_groups(edges) if len(group) > 1]


def _graph(tree: Path, typing_too: bool) -> grimp.ImportGraph:
    sys.path.insert(0, str(tree / "app"))
    return grimp.build_graph("baton", exclude_type_checking_imports=not typing_too, cache_dir=None)


def _is_package(tree: Path, name: str) -> bool:
    return (tree / "app" / Path(*name.split("."))).is_dir()


def _connected_groups(edges: Mapping[str, list[str]]) -> list[list[str]]:
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups = []
    for root in edges:
        work = [(root, iter(edges[root]))] if root not in order else []
        if work:
            order[root] = low[root] = len(order)
            stack.append(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in order:
                    order[other] = low[other] = len(order)
                    stack.append(other)
                    work.append((other, iter(edges[other])))
                    break
                if other in stack:
                    low[node] = min(low[node], order[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == order[node]:
                    cut = stack.index(node)
                    groups.append(stack[cut:])
                    del stack[cut:]
    return groups


class Size(NamedTuple):
    """What a folder itself holds: lines of code, and `.py` files that aren't empty."""

    lines: int = 0
    files: int = 0


def folder_sizes(tree: Path = ROOT) -> dict[str, Size]:
    """The size of each folder of the product, by its path in `app/baton`, which itself is "."."""
    sizes: dict[str, Size] = defaultdict(Size)
    root = tree / "app" / "baton"
    for path in root.rglob("*.py"):
        if source := path.read_text("utf-8").strip():
            folder = path.parent.relative_to(root).as_posix()
            lines, files = sizes[folder]
            sizes[folder] = Size(lines + code_lines(source), files + 1)
    return dict(sorted(sizes.items()))


def code_lines(source: str) -> int:
    """How many lines hold code: blank lines, comments and docstrings aren't counted."""
    numbers: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            numbers.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            numbers.difference_update(range(docstring.lineno, (docstring.end_lineno or 0) + 1))
    return len(numbers)


def size_changes(tree: Path = ROOT) -> Iterator[Problem]:
    """Folders that grew, or shrank much, while their committed size stayed."""
    committed, sizes = committed_sizes(tree), folder_sizes(tree)
    for folder in sorted({*committed, *sizes}):
        old, new = committed.get(folder, Size()), sizes.get(folder, Size())
        has_grown = new.lines > old.lines * (1 + MAX_GROWTH) or new.files > old.files
        if has_grown or new.lines < old.lines * (1 - MAX_SLACK):
            text = f"{folder} has {new.lines} code lines in {new.files} files"
            text = f"{text}; if that is meant: scripts/structure.py sizes --write"
            yield Problem(tree / SIZES, 1, f"{text} ({old.lines} in {old.files} are committed)")


def committed_sizes(tree: Path = ROOT) -> dict[str, Size]:
    """The sizes in the committed table."""
    table = tomllib.loads((tree / SIZES).read_text("utf-8"))
    return {folder: Size(*size) for folder, size in table.items()}


def write_sizes(tree: Path = ROOT) -> None:
    """Renew the committed table."""
    head = "# Code lines and .py files by folder of app/baton: scripts/structure.py sizes --write\n"
    rows = (f'"{name}" = [{one.lines}, {one.files}]\n' for name, one in folder_sizes(tree).items())
    (tree / SIZES).write_text(head + "".join(rows), "utf-8")


def size_rows(tree: Path = ROOT) -> Iterator[str]:
    """Yield the code lines and files of each folder, and of all, with what has changed."""
    new, old = folder_sizes(tree), committed_sizes(tree)
    for sizes in (new, old):
        sizes["in all"] = Size(*map(sum, zip(*sizes.values(), strict=True)))
    for folder in {**new, **old}:
        lines, files = new.get(folder, Size())
        old_lines, old_files = old.get(folder, Size())
        changes = f"{lines - old_lines:+6} {files - old_files:+4}"
        yield f"{folder:30} {lines:6} {files:4} {changes}"


def branch_subjects(tree: Path = ROOT) -> list[str]:
    """The subjects of the commits since `main`, merges left out; none where that isn't known.

    Without git, in an unpacked archive and in a shallow clone it isn't.
    """
    log = ("log", "--no-merges", "--format=%s")
    for main in ("main", "origin/main"):
        base = _git(tree, "merge-base", main, "HEAD")
        if base is not None:
            return (_git(tree, *log, f"{base.strip()}..HEAD") or "").splitlines()
    return []


def _git(tree: Path, *words: str) -> str | None:
    try:
        command = ["git", "-C", str(tree), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def long_subjects(subjects: Iterable[str]) -> list[str]:
    """Return the subjects that are too long for a line of `git log`."""
    return [subject for subject in subjects if len(subject) > MAX_SUBJECT_CHARS]


def _report_subjects(subjects: Iterable[str]) -> int:
    """Print those that are too long, and return 1 if there are any."""
    long = long_subjects(subjects)
    for subject in long:
        print(f"a commit's subject has over {MAX_SUBJECT_CHARS} characters: {subject}")
    return 1 if long else 0


class OwnClass(NamedTuple):
    """A class of the product: its own bases by name, and its public methods and properties."""

    bases: tuple[str, ...]
    public: frozenset[str]


def own_classes(tree: Path = ROOT) -> dict[str, OwnClass]:
    """All classes at module level; of two with one name, the one with more methods."""
    found: dict[str, OwnClass] = {}
    for path in modules(tree):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                public = frozenset(
                    one.name
                    for one in node.body
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
                    and not one.name.startswith("_")
                )
                bases = tuple(_base_name(base) for base in node.bases)
                if node.name not in found or len(found[node.name].public) < len(public):
                    found[node.name] = OwnClass(bases, public)
    return found


def _base_name(node: ast.expr) -> str:
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def public_methods(name: str, classes: Mapping[str, OwnClass]) -> frozenset[str]:
    """The public methods of a class, those that it inherits from the product's classes included."""
    own = classes[name]
    inherited = (
        public_methods(one, classes) for one in own.bases if one in classes and one != name
    )
    return own.public.union(*inherited)


def depth(name: str, classes: Mapping[str, OwnClass]) -> int:
    """How many of the product's classes stand above each other, this one included."""
    bases = [base for base in classes[name].bases if base in classes and base != name]
    return 1 + max((depth(base, classes) for base in bases), default=0)


def figures(tree: Path) -> dict[str, object]:
    """What the layout is measured by."""
    paths = modules(tree)
    stems = Counter(path.stem for path in paths if path.stem != "__main__")
    classes = own_classes(tree)
    sizes = {name: len(public_methods(name, classes)) for name in classes}
    depths = {name: depth(name, classes) for name in classes if "Error" not in name}
    deepest = max(depths, key=lambda name: depths[name])
    return {
        "modules, without __init__": len(paths),
        "files, with __init__": len(list((tree / "app" / "baton").rglob("*.py"))),
        "lines in app": _lines((tree / "app" / "baton").rglob("*.py")),
        "lines in tests": _lines((tree / "tests").rglob("*.py")),
        "lines in scripts": _lines((tree / "scripts").rglob("*.py")),
        "stems used by several modules": sum(count > 1 for count in stems.values()),
        "modules named by a gerund, participle or adverb": sum(
            bool(NOT_NOUNS.match(path.stem)) for path in paths
        ),
        "classes with more than 20 public methods": sum(size > 20 for size in sizes.values()),
        "most public methods": max((size, name) for name, size in sizes.items()),
        "deepest inheritance": (depths[deepest], deepest),
        "import cycles, deferred imports counted": len(import_cycles(tree, typing_too=False)),
        "... and imports for types": len(import_cycles(tree)),
        "modules under 80 lines with one importer": len(list(_small_modules(tree))),
        "lines of README": _lines([tree / "README.md"]),
    }


def _lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def _small_modules(tree: Path) -> Iterator[str]:
    graph = _graph(tree, typing_too=True)
    for path in modules(tree):
        name = ".".join(path.relative_to(tree / "app").with_suffix("").parts)
        if len(path.read_text("utf-8").splitlines()) < MAX_SMALL_LINES:
            importers = graph.find_modules_that_directly_import(name)
            if len(importers) == 1 and not _is_package(tree, *importers):
                yield name


if __name__ == "__main__":
    sys.exit(main())
