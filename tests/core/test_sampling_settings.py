"""How words are chosen, and who said so."""

from __future__ import annotations

import pytest

from baton.core.sampling_settings import (
    TINY_MODEL_PARAMETERS,
    Sampling,
    default_sampling,
    effective_values,
    recommended_sampling,
    resolve_sampling,
)
from baton.gguf.header import parse_header
from support import gguf_writer


def test_what_was_asked_for_comes_before_the_file_and_the_file_before_ours() -> None:
    file = {"temperature": 0.6, "top_k": 20.0}
    asked = {"temperature": 1.2, "top_p": None, "seed": 7}
    assert resolve_sampling(asked, file, TINY_MODEL_PARAMETERS) == Sampling(
        1.2, 20, 0.95, 0.05, 1.0, 7
    )
    values = effective_values(asked, file, default_sampling(TINY_MODEL_PARAMETERS))
    assert values["temperature"] == (1.2, 0)
    assert values["top_k"] == (20.0, 1)
    assert values["top_p"] == (0.95, 2)


def test_a_tiny_model_is_kept_from_repeating_itself_unless_its_file_says_otherwise() -> None:
    assert resolve_sampling({}, {}, TINY_MODEL_PARAMETERS - 1).repeat_penalty == 1.1
    assert (
        resolve_sampling({}, {"repeat_penalty": 1.05}, TINY_MODEL_PARAMETERS - 1).repeat_penalty
        == 1.05
    )
    assert (
        resolve_sampling({}, {"repeat_penalty": 0.0}, TINY_MODEL_PARAMETERS - 1).repeat_penalty
        == 1.0
    )
    assert resolve_sampling({}, {}, TINY_MODEL_PARAMETERS) == Sampling()


@pytest.mark.parametrize("wrong", [None, "", "warm", "nan", -1, 1000, [], float("inf")])
def test_what_can_not_be_a_number_of_that_kind_is_left_out(wrong: object) -> None:
    assert recommended_sampling({"general.sampling.temp": wrong}.get) == {}


def test_a_header_says_the_same_as_llama_cpp_reads_of_it() -> None:
    keys = gguf_writer.facts() | {"general.sampling.temp": 0.5, "general.sampling.top_k": 20}
    data = gguf_writer.whole(keys, [])
    assert parse_header(data, len(data)).sampling == {"temperature": 0.5, "top_k": 20.0}
    texts = {"general.sampling.temp": "0.500000", "general.sampling.top_k": "20"}
    assert recommended_sampling(texts.get) == {"temperature": 0.5, "top_k": 20.0}
