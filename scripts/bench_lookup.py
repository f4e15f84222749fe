"""What prompt lookup would gain: the prompt's own words proposed as the next ones of the answer.

    scripts/bench_lookup                 half of the prompts of `lookup_prompts` (half an hour)
    scripts/bench_lookup --held          the other half, for what was chosen by the first
    scripts/bench_lookup --only greedy   one of both ways to choose words: greedy or drawn
    scripts/bench_lookup --paired        compute no token by itself, which would round otherwise
    scripts/bench_lookup --batches FILE  only what a batch of some tokens costs with a model file
    scripts/bench_lookup --threads 2     the same by the clock, with more threads
    scripts/bench_lookup --before 1500   batches after so many tokens of context

The starter answers greedily, with its penalty, and with words drawn, each prompt without and with
drafts in turn. Figures are processor time of one thread, so that other programs disturb them
little; reading the prompt isn't in them. Only answers count: no loops, no refusals, no copies of
the typos, nothing that has little to do with a wanted text. `grid` replays the answers that were
written without drafts, with what batches cost: other rules need no other answers.

Sources: Saxena's prompt lookup decoding, llama.cpp's `lookup`, transformers'
`prompt_lookup_num_tokens`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "scripts"))
from lookup_prompts import LookupPrompt, lookup_prompts  # noqa: E402

from baton.core.judging.answer_faults import end_before_repeat, is_refusal  # noqa: E402
from baton.core.sampling_settings import Sampling  # noqa: E402
from baton.workers.local import starter  # noqa: E402
from baton.workers.local.child import llama  # noqa: E402
from baton.workers.local.child.batch_plan import FINAL_TOKENS, Layout  # noqa: E402
from baton.workers.local.child.llama_loader import c  # noqa: E402

CONTEXT, MAX_TOKENS, MAX_DRAFT = 4096, 200, 10
ROUNDS = 15
MIN_LIKENESS = 0.8
HOW = {
    "greedy": Sampling(temperature=0.0, repeat_penalty=1.1),
    "drawn": Sampling(repeat_penalty=1.1, seed=7),
}


@dataclass
class Rule:
    """When to draft: after `grams` tokens that stood there before, `length` at first.

    While all are accepted twice as many, up to `most`; where less than half are, none for `pause`
    tokens, and twice as long each time.
    """

    grams: int = 6
    length: int = 3
    most: int = 7
    pause: int = 8
    now: int = field(init=False)
    left: int = 0
    next_pause: int = field(init=False)

    def __post_init__(self) -> None:
        self.now, self.next_pause = self.length, self.pause

    def learn(self, proposed: int, accepted: int) -> None:
        """Take what became of the latest draft, which may have been none."""
        if not proposed:
            self.left -= 1
        elif accepted == proposed:
            self.now, self.next_pause = min(2 * self.now + 1, self.most), self.pause
        else:
            self.now = self.length
            if 2 * accepted < proposed and self.pause:
                self.left, self.next_pause = self.next_pause, min(2 * self.next_pause, 64)


class Lookup:
    """Finds where the latest tokens stood before, and proposes what followed them there."""

    def __init__(self, tokens: Sequence[int], rule: Rule) -> None:
        self.rule = rule
        self.tokens: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        for token in tokens:
            self.add(token)

    def add(self, token: int) -> None:
        """Take the next token of the text."""
        if len(self.tokens) >= self.rule.grams:
            self._ends[tuple(self.tokens[-self.rule.grams :])] = len(self.tokens)
        self.tokens.append(token)

    def draft(self, room: int) -> list[int]:
        """Return the tokens that are proposed, at most so many."""
        end = self._ends.get(tuple(self.tokens[-self.rule.grams :]))
        if end is None or self.rule.left > 0:
            return []
        return self.tokens[end : end + min(self.rule.now, room)]


class Engine:
    """A model and a context for one text, with the settings that Baton computes with."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        self.model = llama.Model(path)
        self.native = self.model.context(Layout(1, CONTEXT, is_split=True), threads, slots=2)
        self._batch = c.llama_batch_init(self.model.batch, 0, 1)
        self.known = 0
        self._prompt: list[int] = []

    def read(self, tokens: Sequence[int], *, is_prompt: bool = False) -> None:
        """Read tokens in one batch, with figures for what follows each, or a prompt's last one."""
        for at, token in enumerate(tokens):
            self._batch.token[at], self._batch.pos[at] = token, self.known + at
            self._batch.n_seq_id[at], self._batch.seq_id[at][0] = 1, 0
            self._batch.logits[at] = not is_prompt or at == len(tokens) - 1
        self._batch.n_tokens = len(tokens)
        if c.llama_decode(self.native, self._batch):
            sys.exit("llama.cpp failed to compute")
        self.known += len(tokens)

    def restart(self, tokens: Sequence[int]) -> None:
        """Read a prompt, of which most is known where it was the latest one too."""
        self.keep(len(tokens) - FINAL_TOKENS if self._prompt == tokens else 0)
        self._prompt = list(tokens)
        for at in range(self.known, len(tokens), self.model.batch):
            self.read(tokens[at : at + self.model.batch], is_prompt=True)

    def keep(self, count: int) -> None:
        """Forget what was read after so many tokens."""
        c.llama_memory_seq_rm(c.llama_get_memory(self.native), 0, count, -1)
        self.known = count


class Answer(NamedTuple):
    """An answer's tokens, the seconds from its first to its last, and what became of drafts."""

    tokens: list[int]
    seconds: float
    proposed: int = 0
    accepted: int = 0


def write(
    engine: Engine,
    prompt: Sequence[int],
    how: Sampling,
    rule: Rule | None,
    *,
    is_paired: bool = False,
) -> Answer:
    """Have an answer written, with drafts if there is a rule for them.

    A token `is_paired` if another one is computed with it, which is dropped.
    """
    engine.restart(prompt)
    model, sampler = engine.model, engine.model.sampler(how)
    tokens = [sampler.next(engine.native, -1)]
    began = time.process_time()
    lookup = Lookup([*prompt, *tokens], rule) if rule else None
    proposed = accepted = 0
    while len(tokens) < MAX_TOKENS and not model.is_end(tokens[-1]):
        draft = lookup.draft(MAX_TOKENS - len(tokens) - 1) if lookup else []
        known = engine.known
        engine.read([tokens[-1], *(draft or tokens[-1:] * is_paired)])
        good = 0
        for place in range(len(draft) + 1):
            token = sampler.next(engine.native, place)
            tokens.append(token)
            if lookup:
                lookup.add(token)
            if place == len(draft) or token != draft[place] or model.is_end(token):
                break
            good += 1
        engine.keep(known + good + 1)
        if lookup:
            lookup.rule.learn(len(draft), good)
        proposed, accepted = proposed + len(draft), accepted + good
    sampler.close()
    return Answer(tokens, time.process_time() - began, proposed, accepted)


def replayed_cost(prompt: Sequence[int], answer: Sequence[int], rule: Rule, costs: Any) -> float:
    """Return what an answer costs with drafts, in batches of one token."""
    lookup, at, cost = Lookup([*prompt, answer[0]], rule), 1, 0.0
    while at < len(answer):
        draft = lookup.draft(MAX_DRAFT)
        pairs = zip(draft, answer[at:], strict=False)
        good = next((n for n, (one, other) in enumerate(pairs) if one != other), len(draft))
        good = min(good, len(answer) - at - 1)
        cost += costs[len(draft) + 1]
        rule.learn(len(draft), good)
        for token in answer[at : at + good + 1]:
            lookup.add(token)
        at += good + 1
    return cost


def batch_costs(engine: Engine, before: int, *, by_clock: bool) -> dict[int, float]:
    """Return what a batch of so many tokens costs, in batches of one.

    That is the median of some rounds; by the clock it is the best, which was disturbed least.
    """
    text = "The light of the river is far from the sea and the house. " * (before // 10 + 2)
    words = engine.model.tokenise(text, special=False)
    engine.restart(words[:before])
    clock, typical = (
        (time.perf_counter, min) if by_clock else (time.process_time, statistics.median)
    )
    times = defaultdict[int, list[float]](list)
    for _ in range(ROUNDS):
        for count in range(1, MAX_DRAFT + 2):
            began = clock()
            engine.read(words[before : before + count])
            times[count].append(clock() - began)
            engine.keep(before)
    one = typical(times[1])
    return {count: typical(found) / one for count, found in times.items()}


def is_answer(prompt: LookupPrompt, text: str, *, is_ended: bool) -> bool:
    """Whether a user would call it an answer, as far as code can say."""
    if not text.strip() or end_before_repeat(text) or is_refusal(text):
        return False
    if prompt.kind == "rename" and prompt.text.split("`")[3] not in text:
        return False
    if prompt.wanted:
        wanted = prompt.wanted[: len(text) if not is_ended else None]
        given = prompt.text.split("\n\n", 1)[1][: len(wanted)]
        ours, theirs = (
            SequenceMatcher(None, one, wanted, autojunk=False).ratio() for one in (text, given)
        )
        return ours > (theirs if prompt.kind == "typos" else MIN_LIKENESS)
    return prompt.kind != "summary" or (is_ended and 40 < len(text) < 0.7 * len(prompt.text))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--held", action="store_true")
    parser.add_argument("--only", choices=HOW)
    parser.add_argument("--paired", action="store_true")
    parser.add_argument("--before", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=Path)
    args = parser.parse_args()
    llama.start(lambda _: None)
    engine = Engine(args.batches or starter().path, args.threads)
    costs = batch_costs(engine, args.before, by_clock=args.threads > 1)
    print(
        "batches:", ", ".join(f"{count}: {cost:.2f}" for count, cost in costs.items()), flush=True
    )
    if not args.batches:
        measure(engine, costs, args)


def measure(engine: Engine, costs: Mapping[int, float], args: argparse.Namespace) -> None:
    """Print what drafts gain for each kind of prompt, then what other rules would."""
    written: dict[tuple[str, str], list[tuple[list[int], Answer]]] = defaultdict(list)
    for how in [args.only] if args.only else HOW:
        print(
            f"\n{how}: kind, texts, tokens/s without and with drafts, ratio, accepted; of answers"
        )
        for kind in dict.fromkeys(prompt.kind for prompt in lookup_prompts()):
            prompts = [
                one for one in lookup_prompts() if one[0] == kind and one.is_held == args.held
            ]
            sides: list[tuple[Answer, Answer]] = []
            counted: list[tuple[Answer, Answer]] = []
            for prompt in prompts:
                tokens = prompt_tokens(engine.model, prompt.text)
                plain, drafted = (
                    write(engine, tokens, HOW[how], rule, is_paired=args.paired)
                    for rule in (None, Rule())
                )
                sides.append((plain, drafted))
                text = b"".join(map(engine.model.piece, plain.tokens)).decode("utf-8", "replace")
                if is_answer(prompt, text, is_ended=engine.model.is_end(plain.tokens[-1])):
                    counted.append(sides[-1])
                    written[how, kind].append((tokens, plain))
            print(f"{kind}: {summary(sides)}; answers: {summary(counted)}", flush=True)
    print("\ngrid: grams, length, most, pause")
    for rule in (
        (grams, length, most, pause)
        for grams in (2, 3, 4, 6)
        for length, most, pause in ((2, 2, 0), (4, 4, 0), (10, 10, 0), (1, 7, 8), (3, 7, 8))
    ):
        gains = []
        for (how, kind), answers in written.items():
            spent = sum(replayed_cost(t, a.tokens, Rule(*rule), costs) for t, a in answers)
            gains.append(f"{how} {kind} {sum(len(a.tokens) - 1 for _, a in answers) / spent:.2f}")
        print(*rule, " ".join(gains))


def prompt_tokens(model: llama.Model, text: str) -> list[int]:
    """Return a prompt as the starter's chat template writes it."""
    parts = (("system", starter().card.system), ("user", text))
    shown = "".join(f"<|im_start|>{role}\n{said}<|im_end|>\n" for role, said in parts)
    return model.tokenise(f"{shown}<|im_start|>assistant\n", special=True)


def summary(sides: Sequence[tuple[Answer, Answer]]) -> str:
    """Return what drafts gained with some texts."""
    if not sides:
        return "none"
    plain, drafted = (
        sum(len(one.tokens) - 1 for one in side) / max(sum(one.seconds for one in side), 1e-9)
        for side in zip(*sides, strict=True)
    )
    accepted, proposed = (
        sum(getattr(one, name) for _, one in sides) for name in ("accepted", "proposed")
    )
    same = sum(one.tokens == other.tokens for one, other in sides)
    return (
        f"{len(sides)}, {plain:.1f} {drafted:.1f}, {drafted / plain:.2f}x, "
        f"{accepted} of {proposed}, {same} same"
    )


if __name__ == "__main__":
    main()
