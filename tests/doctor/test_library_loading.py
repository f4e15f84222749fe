"""The doctor loads every library in a process of its own, and names the one that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from baton.doctor import LIBRARIES, LibraryFailed, load_libraries


def test_all_that_baton_uses_loads_here() -> None:
    load_libraries()
    assert {"onnxruntime", "tokenizers", "keyring"} <= set(LIBRARIES)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise ImportError('no strings here')", "tuba can't be loaded. It ended (exit code 1): "),
        ("import os; os.kill(os.getpid(), 11)", "tuba can't be loaded. It crashed (SIGSEGV)."),
        ("import os; os.kill(os.getpid(), 4)", "It was built for another processor than this one"),
        ("print('a word of its own')\nimport os\nos._exit(3)", "tuba can't be loaded."),
    ],
)
def test_the_library_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, message: str
) -> None:
    (tmp_path / "tuba.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LibraryFailed) as raised:
        load_libraries(["json", "tuba", "numpy"])
    assert message in raised.value.message


def test_one_that_never_loads_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tuba.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("baton.doctor._LOADING_SECONDS", 1.0)
    with pytest.raises(LibraryFailed, match="didn't load within"):
        load_libraries(["tuba"])
