"""The tool that changes the code on purpose: what it makes, and that it reports who notices."""

import ast
import random
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import mutate

SANITISER = "app/baton/core/sanitiser.py"


@pytest.mark.parametrize("mutant", mutate.semantic_mutants(), ids=lambda mutant: mutant.id)
def test_a_change_of_meaning_fits_the_code_as_it_is_now(mutant: mutate.Mutant) -> None:
    source = (mutate.ROOT / mutant.file).read_text("utf-8")
    changed = mutant.apply(source)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def test_every_module_that_is_drawn_from_has_tests_that_exist() -> None:
    table = mutate.modules(drawn=True)
    assert len(table) > 40
    missing = {test for tests in table.values() for test in tests if not Path(test).exists()}
    assert not missing


def test_every_module_with_a_change_of_meaning_has_tests() -> None:
    changed = {mutant.file for mutant in mutate.semantic_mutants()}
    assert changed <= set(mutate.modules())


def test_each_drawn_change_is_python_of_another_meaning() -> None:
    mutants = list(mutate.tool_mutants("app/baton/money/call_funds.py"))
    assert len(mutants) > 50
    before = ast.dump(ast.parse(mutants[0][1].old))
    for line, mutant in random.Random(1).sample(mutants, 50):
        assert ast.dump(ast.parse(mutant.new)) != before, mutant.id
        dropped = mutant.harm.removeprefix("without ")
        assert mutant.harm in (mutant.new.splitlines()[line - 1].strip(), f"without {dropped}")
        assert dropped == mutant.harm or dropped in mutant.old


@pytest.mark.sampled(0.34)
def test_the_same_seed_draws_the_same() -> None:
    drawn = [mutant.id for mutant in mutate.drawn_mutants(20, 7)]
    assert drawn != [mutant.id for mutant in mutate.drawn_mutants(20, 8)]
    assert len(set(drawn)) == 20
    assert drawn[:19] == [mutant.id for mutant in mutate.drawn_mutants(19, 7)]


@pytest.mark.sampled(0.34)
def test_what_is_written_in_other_places_draws_no_other_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(mutate.ROOT / "app", tmp_path / "app", ignore=lambda *_: {"__pycache__"})
    before = {(m.file, m.harm) for m in mutate.drawn_mutants(300, 7)}
    monkeypatch.setattr(mutate, "ROOT", tmp_path)
    source = (tmp_path / SANITISER).read_text("utf-8")
    added = "\n\ndef f(x: int) -> int:\n    while x < 3:\n        x += 1\n    return max(x, 7)\n"
    (tmp_path / SANITISER).write_text(source.replace("\n\n\n", f"{added}\n\n", 1), "utf-8")
    after = {(m.file, m.harm) for m in mutate.drawn_mutants(300, 7)}
    assert len(before - after) <= 4


@pytest.mark.sampled(0.34)
def test_a_change_that_matters_is_noticed_and_one_that_does_not_survives() -> None:
    source = (mutate.ROOT / SANITISER).read_text("utf-8")
    harmless = mutate.Mutant("harmless", SANITISER, source, f"{source}\n", "none")
    harmful = mutate.Mutant("harmful", SANITISER, source, source.replace('"\ufffd"', '"?"', 1), "")
    outcomes = {result.id: result for result in mutate.run_all([harmless, harmful], jobs=1)}
    assert outcomes["harmless"].outcome == "survived"
    assert outcomes["harmful"].outcome == "noticed"
    assert "test_sanitiser.py::" in outcomes["harmful"].by
    assert mutate.noticed_share(list(outcomes.values())) == 0.5
    assert (mutate.ROOT / SANITISER).read_text("utf-8") == source


NOTICED: list[mutate.Result] = []
"""What the runs below found; the last test counts them."""


@pytest.mark.long
@pytest.mark.parametrize("number", range(4))
def test_ten_drawn_changes_are_tried(number: int) -> None:
    drawn = mutate.drawn_mutants(40, mutate.SEED)
    NOTICED.extend(mutate.run_all(drawn[number * 10 : number * 10 + 10], jobs=2))


@pytest.mark.long
def test_nine_of_ten_drawn_changes_are_noticed() -> None:
    assert len(NOTICED) == 40, "run together with the tests that try the changes"
    assert mutate.noticed_share(NOTICED) >= mutate.LEAST_NOTICED, mutate.report(NOTICED)
