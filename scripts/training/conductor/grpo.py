"""Trains the conductor on by reinforcement: it tries plans, and learns from what they are worth.

    scripts/train_conductor --rl --out DIR --start ADAPTER [--seed N] [--minutes M]

GRPO (Shao et al. 2024, arXiv 2402.03300) without the KL term, as the RL Conductor has it: of each
request GROUP plans are drawn, and a plan's advantage is its reward (plan_reward.py) less the
group's mean, divided by the group's spread. The ratio to the probability that it was drawn with is
clipped; the loss is a mean over tokens, so that long plans don't weigh less. Requests, rosters and
plans are new in every round. A group whose plans are all worth the same teaches nothing and
isn't read again.

DIR gets `log.jsonl` and its `curve.svg`, a checkpoint from which the same command continues,
`adapter.gguf`, and `judged.json`: the greedy plans' mean reward on requests kept back, before and
after, paired.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import gym
import learning_curve
import lora
import plan_reward
import real_texts
import torch
from intervals import bootstrap_interval
from learner import PROMPT, Learner, starter
from plan_reward import SampledRequest
from request_generator import Generator
from torch.nn import functional
from transformers import DynamicCache

REQUESTS, GROUP = 8, 8
"""Requests in a round, and plans drawn of each."""

MINI_BATCHES = 2
CLIP = 0.2
MAX_TOKENS = 160
"""As planner.py has it: 1.8 % of the compound requests' plans are longer than 96 tokens."""
LONGEST_REQUEST = 400
"""Characters: longer requests are few, and take a round's time."""

RATE = 0.02
"""What the supervised learning rate is multiplied by; in the first WARM_UP rounds by less, as the
optimizer's first steps are long whatever the gradient."""
WARM_UP = 5

LEAST_SPREAD = 1e-4
JUDGED_AT_ONCE = 24


@dataclass(frozen=True)
class SampledPlan:
    """A plan that was drawn: its tokens, their log-probabilities then, and its advantage."""

    request: tuple[int, ...]
    tokens: tuple[int, ...]
    logs: tuple[float, ...]
    advantage: float = 0.0


def advantages(rewards: Sequence[float]) -> list[float]:
    """Return how much better each of a group did than its mean, in the group's spread."""
    mean, spread = statistics.fmean(rewards), statistics.pstdev(rewards)
    if spread < LEAST_SPREAD:
        return [0.0] * len(rewards)
    return [(reward - mean) / spread for reward in rewards]


def clipped_loss(logs: torch.Tensor, before: torch.Tensor, advantage: torch.Tensor) -> torch.Tensor:
    """Return each token's loss: no gain from moving its probability further than CLIP."""
    ratio = torch.exp(logs - before)
    return -torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)


def write(
    learner: Learner, requests: Sequence[Sequence[int]], count: int, seed: int | None
) -> list[list[SampledPlan]]:
    """Return `count` plans for each request: drawn with a seed, or without one the likeliest.

    Requests are padded on the left, and each is read once for all of its plans. A plan that is over
    leaves the batch: two rounds' plans were drawn in 23 and 21 s of a core instead of 39 and 43.
    """
    model, where = learner.model, learner.model.device
    chance = None if seed is None else torch.Generator(where).manual_seed(seed)
    longest = max(map(len, requests))
    tokens = torch.tensor([[0] * (longest - len(r)) + list(r) for r in requests], device=where)
    seen = torch.tensor([[0] * (longest - len(r)) + [1] * len(r) for r in requests], device=where)
    cache = DynamicCache(config=model.config)
    with torch.no_grad(), lora.merge_adapters(model):
        logits = _next(model, tokens, seen, cache)
        cache.batch_repeat_interleave(count)
        logits, seen = logits.repeat_interleave(count, 0), seen.repeat_interleave(count, 0)
        written: list[list[int]] = [[] for _ in range(len(logits))]
        logs: list[list[float]] = [[] for _ in written]
        places = list(range(len(written)))
        for _ in range(MAX_TOKENS):
            chances = functional.log_softmax(logits.float(), -1)
            if chance is None:
                new = chances.argmax(-1, keepdim=True)
            else:
                new = torch.multinomial(chances.exp(), 1, generator=chance)
            likely = chances.gather(1, new)[:, 0].tolist()
            for place, token, log in zip(places, new[:, 0].tolist(), likely, strict=True):
                written[place].append(token)
                logs[place].append(log)
            left = (new[:, 0] != learner.tokenizer.eos_token_id).nonzero()[:, 0]
            if not len(left):
                break
            if len(left) < len(places):
                places = [places[row] for row in left.tolist()]
                cache.batch_select_indices(left)
                new, seen = new[left], seen[left]
            seen = torch.cat([seen, torch.ones_like(new)], 1)
            logits = _next(model, new, seen, cache)
    rows = zip(written, logs, strict=True)
    return [
        [
            SampledPlan(tuple(request), tuple(new), tuple(likely))
            for new, likely in islice(rows, count)
        ]
        for request in requests
    ]


def _next(model: Any, tokens: torch.Tensor, seen: torch.Tensor, cache: DynamicCache) -> Any:
    """Return the logits after some tokens that follow what is in the cache."""
    places = (seen.cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
    hidden = model.model(
        tokens, attention_mask=seen, position_ids=places, past_key_values=cache, use_cache=True
    ).last_hidden_state
    return model.lm_head(hidden[:, -1])


def log_probabilities(
    model: Any, tried: Sequence[SampledPlan]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the log-probability of each plan's tokens now, and which of them there are."""
    longest = max(len(one.request) + len(one.tokens) for one in tried)
    widest = max(len(one.tokens) for one in tried)
    tokens = torch.zeros(len(tried), longest, dtype=torch.long)
    at = torch.zeros(len(tried), widest, dtype=torch.long)
    there = torch.zeros(len(tried), widest, dtype=torch.bool)
    for row, one in enumerate(tried):
        whole = (*one.request, *one.tokens)
        tokens[row, : len(whole)] = torch.tensor(whole)
        count = len(one.tokens)
        at[row, :count] = torch.arange(count) + len(one.request) - 1
        there[row, :count] = True
    tokens, at, there = (value.to(model.device) for value in (tokens, at, there))
    # Padding stands at the end, so that causal attention alone keeps it out.
    hidden = model.model(tokens).last_hidden_state
    rows = torch.arange(len(tried), device=model.device)[:, None]
    logits = model.lm_head(hidden[rows, at][there]).float()
    logs = torch.zeros(there.shape, device=model.device)
    wanted = tokens[rows, at + 1][there]
    logs[there] = functional.log_softmax(logits, -1).gather(1, wanted[:, None])[:, 0]
    return logs, there


def text_of(learner: Learner, one: SampledPlan) -> str:
    """Return a plan as text."""
    text: str = learner.tokenizer.decode(one.tokens, skip_special_tokens=True)
    return text


class RequestSampler:
    """Draws requests with rosters; the same seed draws the same ones."""

    def __init__(self, seed: int, data: Path | None, held_out: bool = False) -> None:
        real = real_texts.read_texts(data) if data else ()
        self.generator = Generator(seed, held_out=held_out, everything=not held_out, real=real)
        self.rng = random.Random(seed)

    def draw(self, count: int) -> list[SampledRequest]:
        """Return so many requests."""
        rosters = gym.Rosters(self.rng)
        found: list[SampledRequest] = []
        for example in self.generator:
            if len(example.prompt) <= LONGEST_REQUEST and (
                one := plan_reward.draw(example, rosters)
            ):
                found.append(one)
                if len(found) == count:
                    break
        return found


class Reinforcement:
    """A run in a folder, in rounds; it continues from its checkpoint."""

    def __init__(self, args: argparse.Namespace) -> None:
        args.out.mkdir(parents=True, exist_ok=True)
        self._args = args
        self._curve = gym.Curve(cost_weight=args.cost_weight)
        self._learner = Learner(args.base, args.seed, args.threads)
        self._draws = RequestSampler(args.seed, args.data)
        self._checkpoint = args.out / "checkpoint.pt"
        self._round, self._spent = 0, 0.0
        self._learner.begin(args.start)
        self._judged = draws_to_judge(args)
        self._before: list[float] = []
        if self._checkpoint.is_file():
            saved = self._learner.resume(self._checkpoint)
            self._draws.generator.state = saved["generator"]
            self._draws.rng.setstate(saved["rng"])
            self._round, self._spent = saved["round"], saved["spent"]
            self._before = saved["before"]
        self._start = time.monotonic()

    def _save(self) -> None:
        self._learner.save(
            self._checkpoint,
            generator=self._draws.generator.state,
            rng=self._draws.rng.getstate(),
            round=self._round,
            spent=self._spent + time.monotonic() - self._start,
            before=self._before,
        )

    def run(self) -> None:
        """Learn until the rounds or the minutes are used up, then judge."""
        args = self._args
        self._before = self._before or self._judge()
        with (args.out / "log.jsonl").open("a") as log:
            began = time.monotonic()
            while self._round < args.rounds:
                if args.minutes and time.monotonic() - began > 60 * args.minutes:
                    break
                line = self._one_round()
                print(json.dumps(line), file=log, flush=True)
                self._save()
        learning_curve.write(args.out / "log.jsonl")
        self._learner.export(args.out / "adapter.gguf")
        found = json.dumps(comparison(self._before, self._judge(), args.seed))
        (args.out / "judged.json").write_text(found + "\n")
        print(found)

    def _one_round(self) -> dict[str, float]:
        drawn = self._draws.draw(REQUESTS)
        groups = write(
            self._learner,
            [self._read(one) for one in drawn],
            GROUP,
            1000 * self._args.seed + self._round,
        )
        noise = self._draws.rng if self._args.noisy else None
        rewards = [
            [plan_reward.reward(one, text_of(self._learner, t), self._curve, noise) for t in group]
            for one, group in zip(drawn, groups, strict=True)
        ]
        tried = [
            SampledPlan(one.request, one.tokens, one.logs, advantage)
            for group, worth in zip(groups, rewards, strict=True)
            for one, advantage in zip(group, advantages(worth), strict=True)
            if advantage
        ]
        self._learn(tried)
        self._round += 1
        everything = [reward for group in rewards for reward in group]
        return {
            "step": self._round,
            "examples": self._round * REQUESTS * GROUP,
            "reward": round(statistics.fmean(everything), 4),
            "best": round(statistics.fmean(map(max, rewards)), 4),
            "varied": sum(max(group) - min(group) > LEAST_SPREAD for group in rewards),
            "tokens": round(statistics.fmean(len(t.tokens) for g in groups for t in g), 1),
            "seconds": round(self._spent + time.monotonic() - self._start, 1),
        }

    def _learn(self, tried: list[SampledPlan]) -> None:
        """Take MINI_BATCHES steps, each on some of the plans."""
        self._draws.rng.shuffle(tried)
        size = -(-len(tried) // MINI_BATCHES)
        for start in range(0, len(tried), max(size, 1)):
            some = tried[start : start + size]
            total = sum(len(one.tokens) for one in some)
            for at in range(0, len(some), GROUP):
                few = some[at : at + GROUP]
                logs, there = log_probabilities(self._learner.model, few)
                before, advantage = torch.zeros_like(logs), torch.zeros_like(logs)
                for row, one in enumerate(few):
                    before[row, : len(one.logs)] = torch.tensor(one.logs)
                    advantage[row] = one.advantage
                (clipped_loss(logs, before, advantage)[there].sum() / total).backward()
            self._learner.step(RATE * self._args.rate * min(1, (self._round + 1) / WARM_UP))

    def _read(self, drawn: SampledRequest) -> list[int]:
        tokens: list[int] = self._learner.tokenizer.encode(PROMPT.format(prompt=drawn.prompt))
        return tokens

    def _judge(self) -> list[float]:
        """Return what the likeliest plans are worth for the requests kept back."""
        found = []
        for start in range(0, len(self._judged), JUDGED_AT_ONCE):
            some = self._judged[start : start + JUDGED_AT_ONCE]
            groups = write(self._learner, [self._read(one) for one in some], 1, None)
            for drawn, (one,) in zip(some, groups, strict=True):
                text = text_of(self._learner, one)
                found.append(plan_reward.reward(drawn, text, self._curve))
        return found


def draws_to_judge(args: argparse.Namespace) -> list[SampledRequest]:
    """Return the requests kept back; sorted by length, so that little is padded."""
    drawn = (
        RequestSampler(10_000 + args.seed, None, held_out=True).draw(args.judge)
        if args.judge
        else []
    )
    return sorted(drawn, key=lambda one: len(one.prompt))


def comparison(before: Sequence[float], after: Sequence[float], seed: int) -> dict[str, Any]:
    """Return both means and their difference with its 95 % bootstrap interval, paired."""
    if not before:
        return {}
    differences = [new - old for old, new in zip(before, after, strict=True)]
    low, high = bootstrap_interval(differences, seed)
    return {
        "requests": len(differences),
        "before": round(statistics.fmean(before), 4),
        "after": round(statistics.fmean(after), 4),
        "difference": round(statistics.fmean(differences), 4),
        "interval": [round(low, 4), round(high, 4)],
    }


def main() -> None:
    """Read the arguments, learn and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--base", type=Path, default=starter())
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--start", type=Path, required=True, help="the supervised adapter: a run's .pt, or a .gguf"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--data", type=Path, help="the routing data, ../shared/data/routing")
    parser.add_argument("--noisy", action="store_true", help="rewards of drawn outcomes, 0 or 1")
    parser.add_argument(
        "--cost-weight",
        type=float,
        default=gym.COST_WEIGHT,
        help="what a dollar weighs in the reward",
    )
    parser.add_argument("--judge", type=int, default=96, help="how many requests are kept back")
    Reinforcement(parser.parse_args()).run()


if __name__ == "__main__":
    main()
