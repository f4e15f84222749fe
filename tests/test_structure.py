"""Growth of a folder, long subjects and forbidden phrases are noticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import structure

SOURCE = '''"""What it holds.

More of it."""

# Why.
import os


def run(
    name: str,
) -> str:
    """Runs."""
    text = """one
two"""

    return text + name  # said


class Empty:
    """Nothing."""
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Makes a tree with a package of two folders, and its sizes."""
    package = tmp_path / "app" / "baton"
    (package / "cli" / "models").mkdir(parents=True)
    (tmp_path / structure.SIZES).parent.mkdir(parents=True)
    for name in ("__init__.py", "cli/__init__.py"):
        (package / name).write_text('"""A package."""\n' if name == "__init__.py" else "\n")
    write(tmp_path, "cli/ask.py", 100)
    write(tmp_path, "cli/models/pull.py", 50)
    structure.write_sizes(tmp_path)
    return tmp_path


def write(tree: Path, name: str, lines: int) -> None:
    text = '"""A module."""\n\n# A comment.\n' + "x = 1\n\n" * lines
    (tree / "app" / "baton" / name).write_text(text, "utf-8")


def changed(tree: Path) -> list[str]:
    """Return the folders that are reported."""
    return [problem.text.split()[0] for problem in structure.size_changes(tree)]


def test_blank_lines_comments_and_docstrings_are_not_code() -> None:
    assert structure.code_lines(SOURCE) == 8
    assert structure.code_lines('"""Only this."""\n') == 0


def test_a_folder_is_counted_without_those_in_it_and_without_empty_files(tree: Path) -> None:
    assert structure.folder_sizes(tree) == {".": (0, 1), "cli": (100, 1), "cli/models": (50, 1)}
    assert structure.committed_sizes(tree) == structure.folder_sizes(tree)


@pytest.mark.parametrize(
    ("lines", "is_reported"), [(102, False), (103, True), (90, False), (89, True)]
)
def test_lines_may_change_by_two_percent_up_and_ten_down(
    tree: Path, lines: int, is_reported: bool
) -> None:
    write(tree, "cli/ask.py", lines)
    assert changed(tree) == ["cli"] * is_reported
    structure.write_sizes(tree)
    assert changed(tree) == []


def test_a_file_more_is_reported_and_one_less_is_not(tree: Path) -> None:
    write(tree, "cli/models/show.py", 1)
    assert changed(tree) == ["cli/models"]
    structure.write_sizes(tree)
    (tree / "app" / "baton" / "cli" / "models" / "show.py").unlink()
    assert changed(tree) == []


def test_folders_that_come_and_go_are_reported(tree: Path) -> None:
    package = tree / "app" / "baton"
    (package / "cli" / "models").rename(package / "models")
    assert changed(tree) == ["cli/models", "models"]


def test_the_sizes_are_shown_with_what_has_changed(tree: Path) -> None:
    write(tree, "cli/ask.py", 103)
    write(tree, "cli/keys.py", 7)
    rows = [row.split() for row in structure.size_rows(tree)]
    assert rows == [
        [".", "0", "1", "+0", "+0"],
        ["cli", "110", "2", "+10", "+1"],
        ["cli/models", "50", "1", "+0", "+0"],
        ["in", "all", "160", "4", "+10", "+1"],
    ]


def git(tree: Path, *words: str) -> None:
    identity = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    command = ["git", "-C", str(tree), *identity, *words]
    subprocess.run(command, check=True, capture_output=True)


def commit(tree: Path, subject: str) -> None:
    git(tree, "commit", "--quiet", "--allow-empty", "-m", f"{subject}\n\n{'b' * 90}")


@pytest.fixture
def commit_date(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes commits after the first that is checked, whatever the clock says."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2030-01-01T00:00:00Z")


@pytest.mark.usefixtures("commit_date")
def test_subjects_are_those_of_the_commits_since_main(tmp_path: Path) -> None:
    assert structure.branch_subjects(tmp_path) == []  # no repository
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    assert structure.branch_subjects(tmp_path) == []  # no commit
    commit(tmp_path, "a" * 73)
    git(tmp_path, "switch", "--quiet", "-c", "topic")
    assert structure.branch_subjects(tmp_path) == []
    commit(tmp_path, "é" * 72)
    commit(tmp_path, "c" * 73)
    git(tmp_path, "switch", "--quiet", "main")
    commit(tmp_path, "d" * 73)
    git(tmp_path, "switch", "--quiet", "topic")
    git(tmp_path, "merge", "--quiet", "-m", "m" * 73, "main")
    assert structure.branch_subjects(tmp_path) == ["c" * 73, "é" * 72]
    assert structure.long_subjects(structure.branch_subjects(tmp_path)) == ["c" * 73]
    shallow = tmp_path / "shallow"
    git(tmp_path, "clone", "--quiet", "--depth=1", "--branch=topic", tmp_path.as_uri(), "shallow")
    assert structure.branch_subjects(shallow) == []


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("s" * 72 + "\n\nWhy.\n", 0),
        ("s" * 73 + "\n\nWhy.\n", 1),
        (f"Merge branch '{'b' * 90}'\n", 0),
    ],
)
def test_the_hook_refuses_a_subject_over_72_characters(
    tmp_path: Path, message: str, code: int
) -> None:
    file = tmp_path / "message"
    file.write_text(message, "utf-8")
    script = structure.ROOT / "scripts" / "structure.py"
    command = [sys.executable, "-I", str(script), "subject", str(file)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, bool(done.stdout), done.stderr) == (code, bool(code), "")


def write_text(tree: Path, name: str, text: str) -> None:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def refused(tree: Path) -> list[tuple[str, int]]:
    """Return the places below a tree that hold what must not be written."""
    found = (one for one in structure.words(tree) if one.path.is_relative_to(tree))
    return [(one.path.relative_to(tree).as_posix(), one.line) for one in found]


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("Line 3 is no question.", "Line 3 isn't a question; there is no other, it is no longer."),
        ("so nothing of it was sent", "so none of it was sent, and nothing of Baton's history"),
        ("The person's answer.", "The user's answer; people answer in person."),
        ("It goes on later.", "It continues later."),
        ("what calls came to", "what calls cost; the income rose"),
        ("where models lie", "where models are; a linear belief"),
        ("the plan was played", "the plan was run; what is displayed"),
        ("a leftover of Baton's, kept", "a leftover of Baton; of Baton's own, of a plan's steps"),
        ("Mend it.", 'Fix it; `mend` is a field, "mend" too, and amend a word.'),
    ],
)
def test_what_must_not_be_written_is_refused_and_what_resembles_it_is_not(
    tmp_path: Path, line: str, kept: str
) -> None:
    write_text(tmp_path, "app/baton/core/run.py", f'"""First.\n\n{line}\n{kept}\n"""\n')
    assert refused(tmp_path) == [("app/baton/core/run.py", 3)]


def test_every_kind_of_text_is_searched_and_data_is_not(tmp_path: Path) -> None:
    texts = ("AGENTS.md", "examples/minimal.py", "models/list.toml", "app/baton/core/look.tcss")
    data = (
        *("CHANGELOG.md", "app/baton/core/reading/lexicon/kinds.toml", "scripts/data/sizes.toml"),
        *("tests/data/answer.toml", "app/baton/core/words.json", "app/baton/core/ultra.py"),
    )
    for name in (*texts, *data):
        write_text(tmp_path, name, "# It fell over.\n")
    assert refused(tmp_path) == [(name, 1) for name in sorted(texts)]


def test_of_a_template_only_the_line_for_people_is_searched(tmp_path: Path) -> None:
    text = 'about = "One mends it."\n[[steps]]\ntask = "Mend it, and play."\n'
    write_text(tmp_path, "app/baton/workers/templates/draft.toml", text)
    assert refused(tmp_path) == [("app/baton/workers/templates/draft.toml", 1)]


def test_of_a_test_all_is_searched_but_the_strings_in_its_code(tmp_path: Path) -> None:
    lines = (
        '"""It fell over."""',
        'ask("Play it", """',
        'Play it.""", answer="It is no song.")  # It fell over.',
        "def test_it_goes_on() -> None:",
        '    """It goes on."""',
        '    check(f"play {it}", played)',
    )
    write_text(tmp_path, "tests/core/test_run.py", "\n".join(lines) + "\n")
    assert [line for _, line in refused(tmp_path)] == [1, 3, 4, 5, 6]
