"""Reinforcement: advantages, the clipped loss, what is drawn is what is learned from, and runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="only scripts/train_conductor installs torch")
pytest.importorskip("gguf.constants", reason="only scripts/train_conductor installs gguf")

import grpo
import lora
import plan_reward
import torch
from learner import Learner
from transformers import LlamaConfig, LlamaForCausalLM

from training import random_base

END = 1


def tiny() -> Any:
    """A random model of two layers with an adapter that does something."""
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, attn_implementation="eager",
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    adapter = lora.put_on(model, 1)
    with torch.no_grad():
        for parameter in adapter.values():
            parameter.normal_(0, 0.2)
    tokenizer = SimpleNamespace(eos_token_id=END)
    return SimpleNamespace(model=model, tokenizer=tokenizer, adapter=adapter)


def test_advantages_are_in_the_groups_spread_and_nothing_where_all_are_alike() -> None:
    assert grpo.advantages([1.0, 0.0, 1.0, 0.0]) == [1.0, -1.0, 1.0, -1.0]
    assert grpo.advantages([0.7] * 4) == [0.0] * 4


def test_the_loss_pulls_towards_what_was_better_and_no_further_than_the_clip() -> None:
    for advantage, ratio, moves in (
        (1, 1.0, True),
        (-1, 1.0, True),
        (1, 1.5, False),
        (-1, 0.5, False),
    ):
        logs = torch.tensor([ratio]).log().requires_grad_()
        grpo.clipped_loss(logs, torch.zeros(1), torch.tensor([float(advantage)])).sum().backward()
        assert bool(logs.grad) == moves
        assert not moves or (logs.grad < 0) == (advantage > 0)


def test_drawn_plans_have_the_chances_that_learning_computes() -> None:
    learner = tiny()
    requests = [[5, 6, 7], [8, 9, 10, 11, 12, 13], [14]]
    groups = grpo.write(learner, requests, 3, seed=1)
    assert [len(group) for group in groups] == [3, 3, 3]
    tried = [one for group in groups for one in group]
    assert all(one.request == tuple(r) for r, g in zip(requests, groups, strict=True) for one in g)
    assert all(END not in one.tokens[:-1] for one in tried)
    logs, there = grpo.log_probabilities(learner.model, tried)
    for row, one in enumerate(tried):
        assert int(there[row].sum()) == len(one.tokens) == len(one.logs)
        assert logs[row, : len(one.logs)].tolist() == pytest.approx(one.logs, abs=1e-4)


def test_plans_that_are_over_leave_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = tiny()
    read: list[int] = []
    original = grpo._next

    def counted(model: Any, tokens: torch.Tensor, *more: Any) -> Any:
        read.append(len(tokens))
        return original(model, tokens, *more)

    monkeypatch.setattr(grpo, "_next", counted)
    groups = grpo.write(learner, [[5, 6, 7], [8, 9]], 8, seed=1)
    lengths = [len(one.tokens) for group in groups for one in group]
    assert len(set(lengths)) > 2
    assert read[1:] == [sum(n > step for n in lengths) for step in range(1, max(lengths))]


def test_the_same_seed_draws_the_same_and_without_one_the_likeliest_is_written() -> None:
    learner = tiny()
    once, again = (grpo.write(learner, [[5, 6, 7]], 4, seed=2) for _ in range(2))
    assert once == again != grpo.write(learner, [[5, 6, 7]], 4, seed=3)
    ((first, second),) = grpo.write(learner, [[5, 6, 7]], 2, seed=None)
    assert first == second
    assert learner.model.model.layers[1].mlp.up_proj.together is None


def test_the_difference_is_paired() -> None:
    found = grpo.comparison([0.1, 0.5, 0.9], [0.2, 0.6, 1.0], seed=1)
    assert (found["difference"], found["interval"]) == (0.1, [0.1, 0.1])


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random base and the state that a run begins with."""
    folder = tmp_path_factory.mktemp("base")
    random_base.write(folder, "llama")
    adapter = Learner(folder, seed=1, threads=1).adapter
    torch.save({"adapter": lora.state(adapter)}, folder / "start.pt")
    return folder


def run(base: Path, out: Path, rounds: int, rate: int = 40) -> dict[str, Any]:
    """Continue in a folder up to so many rounds; plans with many letters e are good."""
    arguments = {"base": base, "start": base / "start.pt", "out": out, "rounds": rounds}
    arguments |= {"judge": 6, "threads": 1, "rate": rate}
    given = [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["grpo.py", *given])
        patch.setattr(grpo, "REQUESTS", 2)
        patch.setattr(grpo, "MAX_TOKENS", 8)
        patch.setattr(plan_reward, "reward", lambda drawn, text, *_: text.count("e") / 8)
        grpo.main()
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text("utf-8").splitlines()]
    return {
        "log": [
            {name: value for name, value in line.items() if name != "seconds"} for line in lines
        ],
        "judged": json.loads((out / "judged.json").read_text("utf-8")),
        "adapter": torch.load(out / "checkpoint.pt", weights_only=False)["adapter"],
    }


def test_a_run_that_continues_ends_as_one_that_wasnt_broken_off(base: Path, tmp_path: Path) -> None:
    at_once = run(base, tmp_path / "whole", 4)
    run(base, tmp_path / "halves", 2)
    resumed = run(base, tmp_path / "halves", 4)
    assert [line["step"] for line in resumed["log"]] == [1, 2, 3, 4]
    assert resumed["log"] == at_once["log"]
    assert resumed["judged"] == at_once["judged"]
    begun = torch.load(base / "start.pt", weights_only=False)["adapter"]
    for name, part in at_once["adapter"].items():
        assert torch.equal(part, resumed["adapter"][name])
        assert not torch.equal(part, begun[name]), name


def test_it_learns_what_is_rewarded(base: Path, tmp_path: Path) -> None:
    judged = run(base, tmp_path / "run", rounds=40, rate=400)["judged"]
    assert judged["requests"] == 6
    assert judged["interval"][0] > 0.5
    assert (tmp_path / "run" / "adapter.gguf").is_file()
