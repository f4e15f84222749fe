"""The shipped adapter computes in llama.cpp what it computed where it was trained.

`logits.json` is what scripts/training/conductor/reference_logits.py wrote. Leaving the permutation
of the query and key rows out still correlates with .99, and is wrong.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from prompt_context import PromptContext

from baton.workers.local import conductor_adapter, starter
from baton.workers.local.child import llama
from baton.workers.local.child.llama import BASE_KEY, PROMPT_KEY
from baton.workers.local.child.llama_loader import c

REFERENCE = json.loads((Path(__file__).parent / "logits.json").read_text("utf-8"))
EVERY = 97

pytestmark = [pytest.mark.sampled(0.34), pytest.mark.local_model]


class AdaptedModel:
    """The starter model with the shipped adapter."""

    def __init__(self) -> None:
        llama.start(lambda _: None)
        file = conductor_adapter()
        assert file is not None
        self.model = llama.Model(starter().path)
        self.adapter = self.model.adapter(file)
        self.context = PromptContext(self.model, 512, 1, lambda: False)
        self.context.set_adapter(self.adapter, 1.0)

    def logits(self, tokens: list[int]) -> Any:
        """Return the logits after these tokens."""
        self.context.read(tokens, lambda *_: None)
        row = c.llama_get_logits_ith(self.context.native, -1)
        size = self.model.vocabulary
        return numpy.array(ctypes.cast(row, ctypes.POINTER(ctypes.c_float * size))[0])


@pytest.fixture(scope="module")
def adapted() -> AdaptedModel:
    return AdaptedModel()


def test_it_names_its_base_and_its_prompt(adapted: AdaptedModel) -> None:
    digest = hashlib.sha256(starter().path.read_bytes()).hexdigest()
    assert adapted.model.adapter_metadata(adapted.adapter, BASE_KEY) == digest
    assert "{prompt}" in adapted.model.adapter_metadata(adapted.adapter, PROMPT_KEY)


@pytest.mark.sampled(0.34)
def test_its_logits_are_those_of_the_training_framework(adapted: AdaptedModel) -> None:
    same = positions = 0
    for case in REFERENCE:
        tokens = adapted.model.tokenise(case["text"], special=False)
        assert tokens == case["tokens"]
        for at, likeliest in enumerate(case["likeliest"], start=case["plan_from"]):
            same += int(adapted.logits(tokens[: at + 1]).argmax()) == likeliest
            positions += 1
        found = adapted.logits(tokens)[::EVERY]
        assert numpy.corrcoef(found, case["logits"])[0, 1] > 0.998
    assert same / positions > 0.93
