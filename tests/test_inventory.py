"""What people and scripts rely on is as it was committed: see `inventory/collect.py`."""

from __future__ import annotations

import sys

import pytest

from inventory.collect import DATA, SECTIONS, difference

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sets the time zone of a process")

STARTER = {"outputs_models.json": pytest.mark.local_model}
NAMES = [pytest.param(name, marks=STARTER.get(name, ())) for name in SECTIONS]


@pytest.mark.parametrize("name", NAMES)
def test_the_inventory_is_as_committed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A measurement waits until no other program is at work.
    monkeypatch.setattr("psutil.cpu_percent", lambda _: 0.0)
    if changed := difference(name):
        renew = f"python tests/inventory/collect.py --write {name}"
        pytest.fail(f"{name} has changed.\n\n{changed}\nIf this is meant: {renew}", pytrace=False)


def test_every_committed_file_is_compared() -> None:
    assert {file.name for file in DATA.iterdir()} == set(SECTIONS)
