"""Which workers are compared on which questions, and what is asked of the router there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from routing_rows import Rows


@dataclass(frozen=True)
class Pair:
    """Who is compared on which questions, and what is asked of it.

    `mates` are tried in their order until two are there; those that were not visible to the one who
    names them come first. `must` is the APGR, `calls` the share of calls that closes four fifths.
    """

    name: str
    file: str
    local: str
    cloud: str
    mates: tuple[str, ...] = ()
    groups: frozenset[str] = frozenset()
    must: float | None = None
    calls: float | None = None

    def rows(self, hidden: Sequence[Rows]) -> Rows | None:
        """Return its questions, or None where there are none."""
        rows = next((rows for rows in hidden if rows.name == self.file), None)
        if rows is None or not {self.local, self.cloud} <= set(rows.quality):
            return None
        if self.groups:
            kept = np.array([group in self.groups for group in rows.groups], bool)
            rows = rows.take(np.flatnonzero(kept))
        rows = rows.known(self.local, self.cloud)
        return rows if len(rows) else None

    def team(self, rows: Rows) -> tuple[str, ...]:
        """Return the mates that there are: two at most."""
        return tuple(mate for mate in self.mates if mate in rows.answers)[:2]


PRO, GSM, MATH = "mmlupro", "zeroeval_gsm", "zeroeval_mathl5"
CRUX, MANY = "zeroeval_crux", "llmrouter"
LLAMA, QWEN = "llama-3.1-8b-instruct", "qwen2.5-7b-instruct"
MIXTRAL, GPT4 = "mixtral-8x7b", "gpt-4-1106"
GPT4O, GEMINI, O1 = "gpt-4o-2024-08-06", "gemini-1.5-pro-002", "o1-mini-2024-09-12"
NEMOTRON = "llama-3.1-nemotron-51b-instruct"
PRO_MATES = ("phi-3-mini-4k-instruct", "mathstral-7b", "mixtral-8x7b-instruct", "gemma-7b-base")
GSM_MATES = ("gemma-2-9b-it", "phi-3.5-mini-instruct", "yi-1.5-9b-chat")
MATH_MATES = ("qwen2.5-3b-instruct", LLAMA)
CRUX_MATES = ("gemma-2-9b-it", "phi-3-mini-4k-instruct", LLAMA)

MMLU_A = Pair("MMLU, Mixtral to GPT-4, A", "routellm_mmlu", MIXTRAL, GPT4, must=0.70, calls=54.0)
GSM8K_A = Pair("GSM8K, Mixtral to GPT-4, A", "routellm_gsm8k", MIXTRAL, GPT4, must=0.68)
PRO_A = Pair("MMLU-Pro, Llama-3.1-8B to Gemini-1.5-pro, A", PRO, LLAMA, GEMINI, must=0.62)
PRO_B = Pair(
    "MMLU-Pro, Llama-3.1-8B to Gemini-1.5-pro, B", PRO, LLAMA, GEMINI, PRO_MATES, must=0.70
)
MANY_A = Pair("multi-task, Qwen2.5-7B to 51B, A", MANY, QWEN, NEMOTRON, must=0.88)
GSM_B = Pair("GSM, Llama-3.1-8B to GPT-4o, B", GSM, LLAMA, GPT4O, GSM_MATES, must=0.92, calls=12.0)
MATH_B = Pair("MATH level 5, Qwen2.5-7B to o1-mini, B", MATH, QWEN, O1, MATH_MATES, must=0.63)

SEEN = (MMLU_A, GSM8K_A, PRO_A, PRO_B, MANY_A, GSM_B, MATH_B)

UNSEEN_WORKERS = frozenset({LLAMA, QWEN, GPT4O, "gpt-4o-2024-05-13", "gemma-2-9b-it"})
OF_UNSEEN_WORKERS = tuple(
    replace(pair, name=f"{pair.name}, workers never seen", must=None, calls=None)
    for pair in (PRO_A, PRO_B, GSM_B, MATH_B)
)

OF_UNSEEN_FILES = (
    Pair("code output never seen, Qwen-7B to GPT-4o, B", CRUX, QWEN, GPT4O, CRUX_MATES, must=0.70),
    Pair("MMLU-Pro never seen, Llama-8B to Gemini-pro, B", PRO, LLAMA, GEMINI, PRO_MATES),
    Pair("GSM never seen, Llama-8B to GPT-4o, B", GSM, LLAMA, GPT4O, GSM_MATES),
    Pair("MATH never seen, Qwen-7B to o1-mini, B", MATH, QWEN, O1, MATH_MATES),
)

_SUBJECTS = (
    ("engineering", "chemistry"), ("law", "physics"), ("health", "computer science"),
    ("business", "history"), ("economics", "biology"),
)  # fmt: skip
_TASKS = (
    ("mbpp", "humaneval", "logic_grid", "commongen"), ("agentverse-mgsm", "trivia_qa"),
    ("math", "openbook_qa"), ("gsm8k", "commonsense_qa"),
)  # fmt: skip


def of_unseen_groups(data: Sequence[Rows], seed: int) -> list[Pair]:
    """Return pairs on subjects and tasks that are left out of a training: others for each seed."""
    return [
        Pair(
            "MMLU-Pro subjects never seen, A", PRO, LLAMA, GEMINI,
            groups=_chosen(data, PRO, _SUBJECTS, seed), must=0.55,
        ),
        Pair(
            "multi-task, tasks never seen, A", MANY, QWEN, NEMOTRON,
            groups=_chosen(data, MANY, _TASKS, seed), must=0.70,
        ),
    ]  # fmt: skip


def _chosen(
    data: Sequence[Rows], file: str, choice: Sequence[tuple[str, ...]], seed: int
) -> frozenset[str]:
    there = {group for rows in data if rows.name == file for group in rows.groups}
    known = [names for names in choice if there & set(names)]
    return frozenset(known[seed % len(known)]) if known else frozenset()
