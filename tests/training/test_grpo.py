"""Reinforcement: advantages, the clipped loss, and what is drawn is what is learned from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="only scripts/train_conductor installs torch")

import grpo
import lora
import torch
from transformers import LlamaConfig, LlamaForCausalLM

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


def test_the_same_seed_draws_the_same_and_without_one_the_likeliest_is_written() -> None:
    learner = tiny()
    once, again = (grpo.write(learner, [[5, 6, 7]], 4, seed=2) for _ in range(2))
    assert once == again != grpo.write(learner, [[5, 6, 7]], 4, seed=3)
    ((first, second),) = grpo.write(learner, [[5, 6, 7]], 2, seed=None)
    assert first == second
    assert learner.model.model.layers[1].mlp.up_proj.together is None


def test_the_difference_is_paired() -> None:
    found = grpo.compared([0.1, 0.5, 0.9], [0.2, 0.6, 1.0], seed=1)
    assert (found["difference"], found["interval"]) == (0.1, [0.1, 0.1])
