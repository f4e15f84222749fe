"""What a worker's name says of it, and what to expect of an unmeasured one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fit_abilities import canonical_name, fit_abilities
from head_files import abilities_numbers
from hypothesis import given, settings, strategies as st

from baton.core import model_names
from baton.core.routing_types import Candidate
from baton.routing.child import unseen_models

KNOWN = (
    "llama-3.1-8b-instruct", "llama-3.1-8b-base", "llama-3-8b-instruct", "gpt-4o-2024-05-13",
    "gpt-4o-2024-08-06", "gpt-4-1106", "qwen2.5-7b-instruct", "qwen1.5-7b-chat", "command-r",
    "mixtral-8x7b-instruct-v0.1", "o1-mini-2024-09-12", "claude-3-5-sonnet-20241022", "yi-6b-chat",
    "phi-3-mini-4k-instruct", "llama-3.1-nemotron-51b-instruct", "command-r-plus", "gemma-2-9b-it",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "called", "known"),
    [
        ("llama-3.1-8b-instruct", "llama-3.1-8b", "llama-3.1-8b-instruct"),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama-3.1-8b", "llama-3.1-8b-instruct"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b", "llama-3.1-8b-instruct"),
        ("llama3.1:8b-instruct-q4_0", "llama-3.1-8b", "llama-3.1-8b-instruct"),
        ("llama-3.1-8b-base", "llama-3.1-8b-base", "llama-3.1-8b-base"),
        ("llama3.2:1b", "llama-3.2-1b", None),
        ("openai/gpt-4o-2024-08-06", "gpt-4o", "gpt-4o-2024-08-06"),
        ("gpt-4o-2024-05-13", "gpt-4o", "gpt-4o-2024-05-13"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini", None),
        ("gpt-4-1106-preview", "gpt-4", "gpt-4-1106"),
        ("openai/gpt-5-mini", "gpt-5-mini", None),
        ("qwen2.5:7b", "qwen-2.5-7b", "qwen2.5-7b-instruct"),
        ("Qwen2.5-7B-Instruct-Q8_0.gguf", "qwen-2.5-7b", "qwen2.5-7b-instruct"),
        ("qwen3-32b", "qwen-3-32b", None),
        ("Mixtral-8x7B-Instruct-v0.1.Q5_K_M.gguf", "mixtral-19.8b", "mixtral-8x7b-instruct-v0.1"),
        ("anthropic/claude-3-5-sonnet-20241022", "claude-3.5-sonnet", "claude-3-5-sonnet-20241022"),
        ("anthropic/claude-sonnet-4-5", "claude-4.5-sonnet", None),
        ("o1-mini", "o1-mini", "o1-mini-2024-09-12"),
        ("phi3:mini", "phi-3-mini", "phi-3-mini-4k-instruct"),
        ("Phi-3.5-mini-instruct", "phi-3.5-mini", None),
        ("command-r", "command-r", "command-r"),
        ("deepseek-r1-distill-qwen-7b", "deepseek-1-r-7b", None),
        ("SmolLM2-135M-Instruct-Q4_K_M", "smollm-2-0.135b", None),
        ("my own one", "my-own-one", None),
        ("gpt", "gpt", None),
        ("llama.gguf", "llama", None),
        ("", "", None),
    ],
)  # fmt: skip
def test_a_name_is_read_from_any_packer(name: str, called: str, known: str | None) -> None:
    assert canonical_name(name) == called
    assert model_names.matching_model(name, KNOWN) == known


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(max_size=60), st.sampled_from(KNOWN)))
def test_a_short_name_says_what_the_long_one_did(name: str) -> None:
    called = canonical_name(name)
    assert canonical_name(called) == called
    found = unseen_models.model_traits(Candidate(name))
    assert found.shape == (unseen_models.TRAIT_COUNT,)
    assert np.isfinite(found).all()


def test_a_hostile_name_takes_no_time() -> None:
    for name in ("llama-" * 50_000, "1." * 100_000, "8b-q4_k_" * 50_000, "x" * 10**6):
        canonical_name(name)
        unseen_models.likely_billions(Candidate(name))


def measured_quality() -> dict[str, dict[str, tuple[float, int]]]:
    """Return what workers reached whose ability is what their size makes of them."""
    sizes = {
        "llama-2-7b": -0.2, "llama-2-13b": 0.5, "llama-2-70b": 2.2, "qwen1.5-7b": 0.2,
        "qwen1.5-14b": 0.9, "qwen1.5-72b": 2.6, "yi-6b": 0.0, "yi-34b": 1.6,
        "gemma-2-2b": -1.0, "gemma-2-9b": 0.6, "gemma-2-27b": 1.6, "qwen2.5-3b": -0.3,
    }  # fmt: skip

    def reached(ability: float, level: float) -> tuple[float, int]:
        return 1 / (1 + float(np.exp(level - ability))), 1000

    easy = {worker: reached(a, -1.0) for worker, a in sizes.items() if "qwen" not in worker}
    hard = {worker: reached(a, 1.0) for worker, a in sizes.items() if "gemma" not in worker}
    return {"easy": easy, "hard": hard}


def test_abilities_are_on_one_scale_over_all_sets() -> None:
    found = fit_abilities(measured_quality())
    assert found.level["hard"] - found.level["easy"] == pytest.approx(2.0, abs=0.25)
    ranked = sorted(found.workers, key=lambda worker: found.workers[worker])
    assert ranked[0] == "gemma-2-2b"
    assert ranked[-1] == "qwen-1.5-72b"
    assert found.error < 0.6


def test_an_unmeasured_one_is_placed_by_its_size_and_price() -> None:
    found = fit_abilities(measured_quality())

    def ability(name: str = "it", billions: float = 0.0, dollars: float = 0.0) -> float:
        return found.ability(Candidate(name, name, billions, dollars, outside=dollars > 0))

    assert found.measured_name(Candidate("mine", "qwen3-32b")) is None
    assert ability("qwen2.5-0.5b") < ability("qwen2.5-7b") < ability("qwen2.5-72b")
    assert ability("smollm2-135m") < ability("qwen2.5-0.5b")
    assert ability(billions=1.0) < ability(billions=8.0) < ability(billions=70.0)
    assert ability(billions=8.0) < ability(dollars=10.0)
    assert ability(dollars=0.3) < ability(dollars=15.0)
    for odd in (float("inf"), 1e300, -5.0):
        assert -6 <= ability(billions=odd) <= 6
        assert -6 <= ability(dollars=odd) <= 6


def test_a_card_says_something_of_an_unmeasured_one() -> None:
    found = fit_abilities(measured_quality())

    def ability(**skills: float) -> float:
        return found.ability(Candidate("mine", "mine-8b", skills=skills))

    assert ability(code=1.5, math=1.0) < ability() < ability(code=4.5, math=5.0)
    assert abs(ability(code=float("nan"), math=float("inf"))) <= 6
    known = Candidate("g", "gemma-2-9b", skills={"code": 5.0})
    assert found.ability(known) == found.workers["gemma-2-9b"]


def test_what_was_measured_of_it_counts_by_any_name() -> None:
    found = fit_abilities(measured_quality())
    packed = Candidate("small", "Gemma-2-9b-it-Q4_K_M.gguf")
    assert found.ability(packed) == found.workers["gemma-2-9b"]
    assert found.nearest_workers(packed, ["gemma-2-2b", "gemma-2-9b"]) == {"gemma-2-9b": 1.0}
    weights = found.nearest_workers(Candidate("new", "gemma-3-12b"), sorted(found.workers))
    assert sum(weights.values()) == pytest.approx(1.0)
    assert weights["gemma-2-2b"] < weights["llama-2-13b"]


def test_it_is_kept_as_plain_numbers() -> None:
    found = fit_abilities(measured_quality())
    numbers = json.loads(json.dumps(abilities_numbers(found)))
    again = unseen_models.Abilities.from_numbers(numbers)
    for name in ("gemma-2-9b", "qwen3-32b", "gpt-5", "?"):
        assert again.ability(Candidate(name)) == pytest.approx(
            found.ability(Candidate(name)), abs=0.01
        )
    assert again.error == pytest.approx(found.error, abs=1e-3)
    with pytest.raises((KeyError, TypeError, ValueError)):
        unseen_models.Abilities.from_numbers(
            {"workers": {}, "worth": [1.0], "level": {}, "error": 1}
        )


def test_little_data_still_gives_sane_abilities() -> None:
    found = fit_abilities({"only": {"llama-2-7b": (1.0, 3), "gpt-4": (0.0, 3)}})
    assert np.isfinite(found.worth).all()
    assert abs(found.ability(Candidate("yi-34b"))) < 6
