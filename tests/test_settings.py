"""Four sources, one tree; every mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from baton.domain.errors import ConfigError
from baton.settings import Settings, find_paths, load


def write(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text, "utf-8")
    return file


def test_no_file_and_no_environment_are_the_defaults(tmp_path: Path) -> None:
    assert load(tmp_path / "none.toml", {}) == Settings()
    assert [worker.id for worker in Settings().roster] == ["small"]


def test_a_flag_beats_the_environment_beats_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, "[local]\nthreads = 1\ncontext = 2048\nidle_minutes = 3\n")
    environ = {"BATON_LOCAL__THREADS": "2", "BATON_LOCAL__CONTEXT": "4096"}
    local = load(file, environ, {"local": {"threads": 4}}).local
    assert (local.threads, local.context, local.idle_minutes) == (4, 4096, 3)


@pytest.mark.parametrize("source", ["file", "environment", "flag"])
def test_offline_is_on_if_any_source_says_so(tmp_path: Path, source: str) -> None:
    file = write(tmp_path, "offline = true" if source == "file" else "offline = false")
    environ = {"BATON_OFFLINE": "1" if source == "environment" else "0"}
    flags = {"offline": source == "flag"}
    assert load(file, environ, flags).offline


def test_a_worker_of_the_same_id_replaces_the_built_in(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        '[[workers]]\nid = "small"\nmodel = "mine.gguf"\n[[workers]]\nid = "big"\nmodel = "b.gguf"',
    )
    roster = load(file, {}).roster
    assert [(w.id, w.model) for w in roster] == [("small", "mine.gguf"), ("big", "b.gguf")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("ofline = true", "Did you mean 'offline'"),
        ("[local]\nthread = 2", "Did you mean 'threads'"),
        ('[[workers]]\nid = "a"\nmodle = "b"', "Did you mean 'model'"),
        ('mode = "fast"', "'mode' is wrong"),
        ('[local]\nthreads = "many"', "'local.threads' is wrong"),
        ('[budget]\nday = "lots"', "not an amount"),
        ("mode = ", "not valid TOML"),
        ('[[workers]]\nmodel = "x"', "'workers"),
        ("local = 3", "'local' is wrong"),
        ("workers = 3", "'workers' is wrong"),
    ],
)
def test_mistakes_in_the_file_are_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text), {})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_mistakes_in_the_environment_are_named() -> None:
    with pytest.raises(ConfigError, match="in the environment"):
        load(Path("none"), {"BATON_BUGDET__DAY": "2"})


def test_a_file_that_is_no_text_or_a_folder_is_named(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(file, {})
    with pytest.raises(ConfigError, match="can't be read"):
        load(tmp_path, {})


def test_baton_home_puts_everything_under_one_folder(tmp_path: Path) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    for path in (paths.config_file, paths.database, paths.logs, paths.cache):
        assert path.is_relative_to(tmp_path)
