"""Moves modules to the places that docs/moves.tsv names, and rewrites every reference to them.

    move_modules.py check      names and imports of the tree as the table leaves it
    move_modules.py move       `git mv` of every row, without an edit
    move_modules.py rewrite    imports, dotted names, paths and `parents[n]`, after `move`

`move` and `rewrite` make one commit each, so that `git log --follow` finds the old files.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "docs" / "moves.tsv"

SAME_ROLE = {
    "__init__": "packages",
    "__main__": "programs",
    "main": "the first module of a child process",
    "plan": "core's type, and the command `baton plan`",
    "ports": "the Protocols of core, and those of a slice",
    "protocol": "the messages between a slice and its child",
    "queries": "what is read from a slice's database",
    "rows": "rows of a slice's database as types of core",
    "schema": "the migrations of a slice's database",
    "worker": "a kind of worker",
}
"""Module names that more than one module may have, and the role that these modules share."""

BANNED = {"utils", "util", "helpers", "helper", "manager", "common", "misc"}
NOT_NOUNS = re.compile(r"^_?(?!framing|onboarding|sampling)[a-z]+(ing|ed|ly)$")

SLICES = (
    "bench", "doctor", "download", "history", "install", "models", "money", "routing", "workers",
)  # fmt: skip
LOW = ("core", "gguf", "ipc", "platform")
FRONT_ENDS = ("cli", "tui", "server")
NATIVE = {
    "cryptography", "h11", "httpcore", "httpx", "huggingface_hub", "litellm", "llama_cpp", "numpy",
    "onnxruntime", "tokenizers",
}  # fmt: skip

DOCSTRINGS = {
    "bench": "Questions with known answers: strategies compared on them, live and replayed.",
    "core": "Prompt in, events out: the shared vocabulary, and the way of one prompt.",
    "core/plan": "Plans: their steps, who does them, how they are drawn and checked.",
    "core/run": "One run: from a prompt to its events.",
    "core/spending": "What help is worth, and how fast money may be spent.",
    "cli/bench": "`baton bench`: strategies and conductors compared.",
    "gguf": "What a model file says, and the memory that it needs. Pure.",
    "ipc": "Child processes and the pipes to them.",
    "models": "Models: which there are, which suit a machine, and what they do.",
    "platform": "This machine: settings, keys, files, hardware, SQLite, signals.",
    "tui/chat": "The chat screen, and a controller for each thing that can be done on it.",
    "workers": "What answers: models on this machine, remote models, and tools.",
    "workers/cloud/child": "The gateway: the process through which every remote call goes.",
    "workers/local/child": "The runner: the process that holds one model.",
    "workers/tools/child": "The tools' process: it computes, and runs code in a sandbox.",
}
"""The docstrings of packages that are new, or whose `__init__` comes from another place."""

SYMBOLS = {
    "baton.domain.library.Phase": "baton.download.progress",
    "baton.domain.library.Progress": "baton.download.progress",
}
"""What leaves its module for a new one."""

SPLIT = {"app/baton/download/progress.py": "How far a download is."}
"""The modules that are made of these, with their docstrings."""

REWRITTEN_INITS = ("core", "core/run", "ipc", "workers")
"""Packages whose `__init__` comes along, but with another docstring."""

SKIPPED = re.compile(
    r"(\.lock|\.raw|\.svg|\.jsonl|\.csv|\.npz|\.onnx|\.gguf|\.txt|\.sql|logits\.json|tokenizer\.json"
    r"|skills\.json)$|^(docs/moves\.tsv|CHANGELOG\.md|scripts/move_modules\.py|models/.*\.json)$"
)


class Edit(NamedTuple):
    """A replacement of `source[start:end]`."""

    start: int
    end: int
    text: str


def git(*args: str) -> str:
    """Return what git prints."""
    done = subprocess.run(["git", *args], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def listed(*patterns: str) -> list[str]:
    """Return the tracked files that match."""
    return git("ls-files", "-z", *patterns).split("\0")[:-1]


def table() -> dict[str, str]:
    """Return where each file goes, also those that stay."""
    rows = TABLE.read_text(encoding="utf-8").splitlines()[1:]
    return {row.partition("\t")[0]: row.partition("\t")[2] for row in rows}


def module_of(path: str) -> str:
    """Return the name by which a file is imported; "" for one that isn't."""
    if not path.endswith(".py"):
        return ""
    for root in ("app/", "tests/", "scripts/training/router/", "scripts/training/conductor/"):
        if path.startswith(root):
            return path[len(root) : -3].replace("/", ".").removesuffix(".__init__")
    return ""


# --- check


def check() -> int:
    """Print what is wrong with the table, and the imports that break a rule of the layout."""
    moves = table()
    problems = [*_name_problems(moves), *_tree_problems(moves)]
    print("\n".join(problems) or "Names: no problems.")
    broken = sorted(set(_broken_rules(moves)))
    for rule, count in sorted(Counter(rule for rule, _, _ in broken).items()):
        print(f"\n{rule} ({count})")
        for kind, importer, imported in broken:
            if kind == rule:
                print(f"  {importer} -> {imported}")
    return 1 if problems else 0


def _name_problems(moves: Mapping[str, str]) -> Iterator[str]:
    stems: dict[str, list[str]] = defaultdict(list)
    for target in sorted({moves.get(file, file) for file in listed("app/baton")}):
        if target.endswith(".py"):
            stem = Path(target).stem
            stems[stem if stem.startswith("__") else stem.lstrip("_")].append(target)
            if stem in BANNED or (NOT_NOUNS.match(stem) and stem not in SAME_ROLE):
                yield f"{target}: its name is no noun"
    for stem, files in sorted(stems.items()):
        if len(files) > 1 and stem not in SAME_ROLE:
            yield f"{stem}: {', '.join(files)}"


def _tree_problems(moves: Mapping[str, str]) -> Iterator[str]:
    if doubled := [to for to, count in Counter(moves.values()).items() if count > 1]:
        yield f"Two files go to {', '.join(doubled)}"
    if not any((ROOT / old).exists() for old, new in moves.items() if old != new):
        return  # all have moved
    here = {file for file in listed("app/baton", "tests") if "__snapshots__" not in file}
    known = set(moves) | set(moves.values()) | {f"app/baton/{p}/__init__.py" for p in DOCSTRINGS}
    for file in sorted(here - known):
        yield f"{file}: not in the table"
    for old, new in moves.items():
        if not (ROOT / old).exists() and not (ROOT / new).exists():
            yield f"{old}: not in the tree"


def _broken_rules(moves: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    files = [file for file in listed("app/baton") if file.endswith(".py")]
    moved = {module_of(file): module_of(moves.get(file, file)) for file in files}
    for file in files:
        importer = moved[module_of(file)]
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        for name in _imported(tree, moved):
            imported = moved.get(name, name)
            if rule := _rule_broken(importer, imported):
                yield rule, importer, imported


def _imported(tree: ast.AST, modules: Mapping[str, str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full in modules else node.module


def _rule_broken(importer: str, imported: str) -> str:
    """Return the rule of LAYOUT that an import breaks, or ""."""
    if not imported.startswith("baton."):
        return _library_rule(importer, imported)
    if importer == "baton" or imported == "baton" or not importer.startswith("baton."):
        return ""
    mine, other = importer.split(".")[1], imported.split(".")[1]
    if ".child" in imported and ".child" not in importer:
        home = imported.split(".child")[0]
        if not (f"{importer}.".startswith(f"{home}.") or mine == "doctor"):
            return "3. Only a slice's own modules know its child"
    return _layer_rule(importer, imported, mine, other)


def _library_rule(importer: str, imported: str) -> str:
    library = imported.split(".")[0]
    if not importer.startswith("baton."):
        return ""
    if library in NATIVE and ".child" not in importer:
        return "3. Only */child imports native and network libraries"
    low = (".core.", ".gguf.")
    if f".{importer.partition('.')[2]}.".startswith(low) and library not in {
        *sys.stdlib_module_names, "baton",
    }:  # fmt: skip
        return "1. core and gguf import the standard library only"
    return ""


def _layer_rule(importer: str, imported: str, mine: str, other: str) -> str:
    may = {"core": (), "gguf": ("core",), "platform": ("core",), "ipc": ("core", "platform")}
    if mine in may:
        if other != mine and other not in may[mine]:
            return f"1. {mine} imports {' and '.join(may[mine]) or 'nothing of Baton'}"
        if mine in ("ipc", "platform") and other == "core" and imported.split(".")[2] not in (
            "errors", "messages",
        ):  # fmt: skip
            return "1. ipc and platform use only core.errors and core.messages"
    elif mine in SLICES:
        serves = other == "download" and mine in ("models", "install")
        may_load_any = importer.startswith("baton.doctor.child.")
        if other != mine and other not in LOW and not serves and not may_load_any:
            return "2. Slices don't import each other"
        if ".child." in importer and imported == "baton.platform.secrets":
            key_holder = importer.startswith(
                ("baton.workers.cloud.", "baton.download.", "baton.doctor.")
            )
            return "" if key_holder else "3. Children import no secrets"
    elif mine in FRONT_ENDS:
        return _front_end_rule(mine, other, imported)
    return ""


def _front_end_rule(mine: str, other: str, imported: str) -> str:
    if other in FRONT_ENDS and other != mine and not (mine == "cli" and other == "tui"):
        return "4. Front ends don't import one another"
    if other in SLICES and len(imported.split(".")) > 2 and imported not in (
        "baton.workers.cloud", "baton.workers.local", "baton.workers.tools", "baton.models.store",
    ):  # fmt: skip
        return "4. Front ends import what a slice's __init__ exports"
    if other in ("gguf", "ipc", "platform"):
        return "4. Front ends import compose, core, presentation and slices"
    return ""


# --- move


def move() -> int:
    """Move every file, and commit that alone."""
    for old, new in table().items():
        if old != new:
            (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
            git("mv", old, new)
    git("commit", "--quiet", "-m", "Move modules to folders by capability")
    return 0


# --- rewrite


class Names:
    """Where modules, files and folders have gone."""

    def __init__(self, moves: Mapping[str, str]) -> None:
        self.moves = moves
        self.modules = {
            module_of(old): module_of(new)
            for old, new in moves.items()
            if module_of(old) and module_of(new)
        }
        self.exported = set(self._exported())
        self.dotted = re.compile(r"(?<![\w.])baton(?:\.[A-Za-z_]\w*)+")
        tests = sorted(
            {name.split(".")[0] for name in self.modules if not name.startswith("baton")}
        )
        self.dotted_tests = re.compile(rf"(?<![\w./-])(?:{'|'.join(tests)})(?:\.[A-Za-z_]\w*)+")
        self.short = re.compile(r"(?<![\w./-])(?:domain|engine|adapters|children)(?:\.[a-z_]\w*)+")
        self.paths = self._path_pattern()

    def _exported(self) -> Iterator[str]:
        """Find what packages bind themselves, which may have a module's name."""
        for old, new in self.moves.items():
            if not old.endswith("/__init__.py") or not (ROOT / new).is_file():
                continue
            for node in ast.walk(ast.parse((ROOT / new).read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom):
                    for alias in node.names:
                        if f"{node.module}.{alias.name}" not in self.modules:
                            yield f"{module_of(old)}.{alias.asname or alias.name}"

    def is_module(self, name: str) -> bool:
        """Tell whether that is a module that moves, for whoever imports it from its package."""
        return name in self.modules and name not in self.exported

    def _path_pattern(self) -> re.Pattern[str]:
        self.path_map: dict[str, str] = {}
        folders: dict[str, Counter[str]] = defaultdict(Counter)
        for old, new in self.moves.items():
            folders[str(Path(old).parent)][str(Path(new).parent)] += 1
            for prefix in ("", "app/", "app/baton/"):
                if old.startswith(prefix):
                    short = old[len(prefix) :]
                    end = new[len(prefix) :] if new.startswith(prefix) else new
                    if "/" in short:
                        self.path_map[short] = end
        for folder, targets in folders.items():
            if len(targets) == 1 and folder not in ("tests", "app/baton"):
                target = next(iter(targets))
                self.path_map[f"{folder}/*"] = f"{target}/*"
                self.path_map[f'{folder}"'] = f'{target}"'
        names = sorted(self.path_map, key=len, reverse=True)
        return re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, names))})(?![\w/])")

    def module(self, name: str) -> str | None:
        """Return where the longest known beginning of a dotted name is now."""
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            if (new := self.modules.get(".".join(parts[:end]))) is not None:
                return ".".join([new, *parts[end:]])
        return None

    def text_edits(self, text: str, offset: int = 0, prose: bool = True) -> Iterator[Edit]:
        """Find dotted names and paths in any text."""
        for found in self.dotted.finditer(text):
            if new := self.module(found[0]):
                yield Edit(offset + found.start(), offset + found.end(), new)
        for found in self.paths.finditer(text):
            new = self.path_map[found[0]]
            yield Edit(offset + found.start(), offset + found.end(), new)
        if prose:
            for found in self.short.finditer(text):
                if (new := self._short_name(found[0])) is not None:
                    yield Edit(offset + found.start(), offset + found.end(), new)

    def _short_name(self, name: str) -> str | None:
        if name.endswith(".py"):
            return None
        parts = name.split(".")
        for end in range(len(parts), 1, -1):
            if (new := self.modules.get("baton." + ".".join(parts[:end]))) is not None:
                return ".".join([new.removeprefix("baton."), *parts[end:]])
        return None


def rewrite() -> int:
    """Rewrite every reference, add the packages that are new, format, and commit."""
    names = Names(table())
    _write_packages()
    _split_modules(names)
    olds = {new: old for old, new in names.moves.items()}
    for file in listed():
        if SKIPPED.search(file) or not (ROOT / file).is_file():
            continue
        try:
            text = (ROOT / file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        is_python = file.endswith((".py", ".spec"))
        edits = list(_python_edits(text, file, olds, names)) if is_python else []
        if not is_python:
            edits = list(names.text_edits(text, prose=file.endswith(".md")))
        if edits:
            (ROOT / file).write_text(applied(text, edits), encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff"]
    subprocess.run([*ruff, "check", "--select", "I", "--fix-only", "--quiet"], cwd=ROOT, check=True)
    subprocess.run([*ruff, "format", "--quiet"], cwd=ROOT, check=True)
    git("add", "--all")
    git("commit", "--quiet", "-m", "Rewrite the references to moved modules")
    return 0


def applied(text: str, edits: list[Edit]) -> str:
    """Return the text with the edits made; of two that overlap, the one given first."""
    taken: list[Edit] = []
    for edit in edits:
        if not any(edit.start < other.end and other.start < edit.end for other in taken):
            taken.append(edit)
    for edit in sorted(taken, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _write_packages() -> None:
    for package, says in DOCSTRINGS.items():
        file = ROOT / "app" / "baton" / package / "__init__.py"
        if not file.exists() or package in REWRITTEN_INITS:
            file.write_text(f'"""{says}"""\n', encoding="utf-8")


class Source:
    """A Python file: its text, its tree, and where the tree's nodes stand in the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.offsets = [0]
        for line in text.splitlines(keepends=True):
            self.offsets.append(self.offsets[-1] + len(line))
        self.used = _names_used(self.tree)
        self.imports_whole = any(
            isinstance(node, ast.Import) and any(n.name.startswith("baton.") for n in node.names)
            for node in ast.walk(self.tree)
        )

    def at(self, line: int, column: int) -> int:
        """Return the index of a node's place: its column counts bytes."""
        start = self.offsets[line - 1]
        end = self.offsets[line]
        return start + len(self.text[start:end].encode()[:column].decode())

    def renamed(self, old: str, new: str) -> Iterator[Edit]:
        """Call a module by its new name wherever it is used."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and node.id == old:
                start = self.at(node.lineno, node.col_offset)
                yield Edit(start, start + len(old), new)

    def may_rename(self, old: str, new: str) -> bool:
        """Tell whether a module may be called by its new name all over the file."""
        used = self.used
        return not used[old] and not used[new] and not used[f"any {new}"]


def _split_modules(names: Names) -> None:
    """Cut what SYMBOLS names out of its module, into one of its own."""
    for file, says in SPLIT.items():
        parts, origin = [], ""
        for name, module in SYMBOLS.items():
            if module_of(file) == module:
                old, _, symbol = name.rpartition(".")
                origin = f"app/{names.modules[old].replace('.', '/')}.py"
                parts.append(symbol)
        lines = (ROOT / origin).read_text(encoding="utf-8").splitlines(keepends=True)
        cut: list[str] = []
        for node in reversed(ast.parse("".join(lines)).body):
            if isinstance(node, ast.ClassDef) and node.name in parts:
                first = min([node.lineno, *(item.lineno for item in node.decorator_list)]) - 1
                cut[:0] = ["\n\n", *lines[first : node.end_lineno]]
                del lines[first : node.end_lineno]
        head = f'"""{says}"""\n\nfrom __future__ import annotations\n\n'
        head += "from dataclasses import dataclass\nfrom enum import StrEnum\n"
        (ROOT / file).write_text(head + "".join(cut), encoding="utf-8")
        (ROOT / origin).write_text("".join(lines), encoding="utf-8")


def _python_edits(text: str, file: str, olds: Mapping[str, str], names: Names) -> Iterator[Edit]:
    source = Source(text)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from _from_edits(node, node.module, source, names)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if (new := names.modules.get(alias.name)) is not None:
                    start = source.at(alias.lineno, alias.col_offset)
                    yield Edit(start, start + len(alias.name), new)
    yield from _embedded_edits(text, names)
    yield from _parent_edits(text, file, olds)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            start = source.offsets[token.start[0] - 1] + token.start[1]
            yield from names.text_edits(token.string, start)
            yield from _test_edits(token.string, start, names)
    if source.imports_whole:
        yield from names.text_edits(text, prose=False)


def _test_edits(text: str, offset: int, names: Names) -> Iterator[Edit]:
    for found in names.dotted_tests.finditer(text):
        if new := _test_module(found[0], names):
            yield Edit(offset + found.start(), offset + found.end(), new)


def _test_module(name: str, names: Names) -> str | None:
    """Return a test module's new name, for one that is named exactly or with one attribute."""
    for known in (name, name.rpartition(".")[0]):
        if "." in known and known in names.modules:
            return names.modules[known] + name[len(known) :]
    return None


def _names_used(tree: ast.AST) -> Counter[str]:
    """Count all identifiers of a file except those that are only read."""
    used: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            used[node.id] += not isinstance(node.ctx, ast.Load)
            used[f"any {node.id}"] += 1
        elif isinstance(node, ast.arg):
            used[node.arg] += 1
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            used[node.name] += 1
        elif isinstance(node, ast.Global | ast.Nonlocal):
            used.update(node.names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            used.update(f"any {alias.asname or alias.name}" for alias in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            used[node.name] += 1
    return used


def _from_edits(node: ast.ImportFrom, module: str, source: Source, names: Names) -> Iterator[Edit]:
    groups: dict[str, list[str]] = {}
    changed = False
    for alias in node.names:
        full = f"{module}.{alias.name}"
        bound = alias.asname or alias.name
        if names.is_module(full):
            parent, _, word = names.modules[full].rpartition(".")
            changed |= names.modules[full] != full
            if bound != word and alias.asname is None and source.may_rename(bound, word):
                yield from source.renamed(bound, word)
                bound = word
        else:
            parent, word = SYMBOLS.get(full, names.modules.get(module, module)), alias.name
            changed |= parent != module
        groups.setdefault(parent, []).append(word if word == bound else f"{word} as {bound}")
    if changed:
        start = source.at(node.lineno, node.col_offset)
        end = source.at(node.end_lineno or 0, node.end_col_offset or 0)
        yield Edit(start, end, f"\n{' ' * node.col_offset}".join(_import_lines(groups)))


def _import_lines(groups: Mapping[str, list[str]]) -> list[str]:
    return [
        f"from {parent} import {', '.join(words)}" if parent else f"import {', '.join(words)}"
        for parent, words in groups.items()
    ]


def _embedded_edits(text: str, names: Names) -> Iterator[Edit]:
    """Rewrite imports of modules in code that stands in strings."""
    for found in re.finditer(
        r"from ([a-z_][\w.]*) import (\w+(?: as \w+)?(?:, ?\w+(?: as \w+)?)*)", text
    ):
        package, items = found[1], [item.split() for item in found[2].split(",")]
        if not any(names.is_module(f"{package}.{item[0]}") for item in items):
            continue
        groups: dict[str, list[str]] = {}
        for item in items:
            full = f"{package}.{item[0]}"
            if names.is_module(full):
                parent, _, stem = names.modules[full].rpartition(".")
                bound = item[-1]
                groups.setdefault(parent, []).append(
                    stem if stem == bound else f"{stem} as {bound}"
                )
            else:
                groups.setdefault(names.module(package) or package, []).append(" ".join(item))
        yield Edit(found.start(), found.end(), "; ".join(_import_lines(groups)))


def _parent_edits(text: str, file: str, olds: Mapping[str, str]) -> Iterator[Edit]:
    """Adapt how far up a moved test looks from its own place."""
    old = olds.get(file, file)
    deeper = file.count("/") - old.count("/")
    if not deeper or not file.startswith("tests/"):
        return
    pattern = r"Path\(__file__\)(\.resolve\(\))?((?:\.parent\b(?!s))+|\.parents\[(\d+)\])"
    for found in re.finditer(pattern, text):
        level = int(found[3]) + 1 if found[3] else found[2].count(".parent")
        if level == 1 and old.count("/") > 1:
            continue  # its own folder, with the data beside it
        chain = f".parents[{level + deeper - 1}]"
        yield Edit(found.start(), found.end(), f"Path(__file__){found[1] or ''}{chain}")


if __name__ == "__main__":
    commands = {"check": check, "move": move, "rewrite": rewrite}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    sys.exit(commands[sys.argv[1]]())
