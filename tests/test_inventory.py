"""What people and scripts rely on is what was committed: see `inventory/collect.py`."""

from __future__ import annotations

import pytest

from inventory.collect import DATA, SECTIONS, difference

RENEW = "If this is meant: python tests/inventory/collect.py --write"


@pytest.mark.parametrize("name", SECTIONS)
def test_the_inventory_is_as_committed(name: str) -> None:
    told = difference(name)
    assert not told, f"{name} has changed.\n{told}\n{RENEW} {name}"


def test_every_committed_file_is_compared() -> None:
    assert {file.name for file in DATA.iterdir()} == set(SECTIONS)
