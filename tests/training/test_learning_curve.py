"""A training run's log becomes a plot, also one that was broken off."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import learning_curve
import pytest

SVG = "{http://www.w3.org/2000/svg}"


def line(examples: int, **values: float) -> str:
    return json.dumps({"step": examples // 8, "examples": examples, **values, "seconds": 1.5})


def test_a_log_is_drawn_beside_itself_and_the_loss_falls(tmp_path: Path) -> None:
    log = tmp_path / "run & more" / "log.jsonl"
    log.parent.mkdir()
    log.write_text("\n".join(line(200 * n, loss=3 / n) for n in range(1, 40)), "utf-8")
    file = learning_curve.write(log)
    assert file == log.parent / "curve.svg"
    drawn = ElementTree.parse(file).getroot()
    assert drawn.findtext(f"{SVG}title") == "Training in run & more"
    [curve] = [path for path in drawn.iter(f"{SVG}path") if path.get("fill") == "none"]
    points = [tuple(map(float, pair.split())) for pair in str(curve.get("d"))[1:].split("L")]
    assert len(points) == 39
    assert points == sorted(points)  # to the right, and down, as the y axis points
    assert points[-1] == (736.0, 260.0)
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert "loss 0.0769, over examples" in texts
    assert {"7,800", "3"} <= set(texts)


def test_what_was_logged_after_the_last_checkpoint_is_replaced() -> None:
    lines = [line(200, loss=3.0), line(400, loss=2.0), line(600, loss=1.9)]
    again = [line(400, loss=1.8), line(600, loss=1.5)]
    assert learning_curve.read_curves([*lines, *again]) == {
        "loss": [(200.0, 3.0), (400.0, 1.8), (600.0, 1.5)]
    }


def test_a_reward_has_a_panel_of_its_own() -> None:
    curves = learning_curve.read_curves(
        [line(8 * n, loss=1.0, reward=n / 10) if n % 2 else line(8 * n, loss=1.0) for n in range(6)]
    )
    assert [len(curve) for curve in curves.values()] == [6, 3]
    drawn = ElementTree.fromstring(learning_curve.as_svg("Rewards", curves))
    assert len(drawn.findall(f"{SVG}g")) == 2


@pytest.mark.parametrize(
    "bad", ['{"step": 75, "exam', "[]", '"loss"', line(600, loss=float("nan"))]
)
def test_lines_that_say_nothing_are_left_out(bad: str) -> None:
    good = [line(200, loss=3.0), line(400, loss=2.0)]
    assert learning_curve.read_curves([*good, bad]) == learning_curve.read_curves(good)


def test_one_point_is_not_a_curve(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(line(200, loss=3.0), "utf-8")
    assert learning_curve.write(log) is None
    assert not (tmp_path / "curve.svg").exists()


def test_a_long_log_keeps_its_ends() -> None:
    curves = learning_curve.read_curves(line(n, loss=float(n)) for n in range(1, 10_001))
    drawn = ElementTree.fromstring(learning_curve.as_svg("Long", curves))
    [curve] = [path for path in drawn.iter(f"{SVG}path") if path.get("fill") == "none"]
    points = str(curve.get("d"))[1:].split("L")
    assert len(points) <= learning_curve.MAX_POINTS + 1
    assert points[-1] == "736.0 40.0"
