"""The parts fit together, also where one of them is missing."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from baton.compose import compose
from baton.domain.errors import ModelFileError
from baton.settings import LocalWorker, Settings, find_paths


@pytest.fixture
def _no_starter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("_no_starter")
async def test_a_missing_starter_model_is_missed_only_when_it_is_wanted(tmp_path: Path) -> None:
    paths = find_paths({"BATON_HOME": str(tmp_path)})
    own = LocalWorker("own", model=str(tmp_path / "own.gguf"))
    with pytest.raises(ModelFileError, match="starter model isn't installed"):
        compose(Settings(workers=(own,)), paths, history=False)
    baton = compose(Settings(workers=(own,), worker="own"), paths, history=False)
    assert [card.id for card in baton.orchestra.roster] == ["own"]
    await baton.aclose()


async def test_settings_reach_the_worker(tmp_path: Path) -> None:
    own = LocalWorker("own", model="x.gguf", system="Be brief.", context=512, max_output=9)
    baton = compose(Settings(workers=(own,)), find_paths({"BATON_HOME": str(tmp_path)}))
    card = baton.orchestra.worker("own").card
    assert (card.system, card.context, card.max_output) == ("Be brief.", 512, 9)
    assert [c.id for c in baton.orchestra.roster] == ["small", "own"]
    await baton.aclose()
