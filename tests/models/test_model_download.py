"""Which model is meant, and what it is called here."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from baton.core.catalogue_types import CatalogueEntry, Source
from baton.core.errors import ConfigError
from baton.models.model_download import make_id, parse_ref

QWEN = CatalogueEntry(
    "qwen3.5-4b", "Qwen3.5 4B", Source("unsloth/Qwen3.5-4B-GGUF", "Qwen3.5-4B.gguf")
)
ENTRIES = {QWEN.id: QWEN}


def test_an_id_of_the_catalogue_is_that_entry() -> None:
    assert parse_ref(" Qwen3.5-4B ", ENTRIES).entry is QWEN


@pytest.mark.parametrize(
    ("typed", "source", "quant"),
    [
        ("hf.co/ggml-org/tiny", Source("ggml-org/tiny"), ""),
        ("hf.co/ggml-org/tiny:Q5_K_M", Source("ggml-org/tiny"), "Q5_K_M"),
        ("ggml-org/tiny:q8_0", Source("ggml-org/tiny"), "q8_0"),
        ("hf://ggml-org/tiny", Source("ggml-org/tiny"), ""),
        ("huggingface.co/a/b/c/d.gguf", Source("a/b", "c/d.gguf"), ""),
        ("https://huggingface.co/a/b", Source("a/b"), ""),
        ("https://huggingface.co/a/b/blob/main/d.gguf", Source("a/b", "d.gguf", "main"), ""),
        (
            "https://hf.co/a/b/resolve/v1/x/d.gguf?download=true",
            Source("a/b", "x/d.gguf", "v1"),
            "",
        ),
        (
            "https://example.org/x/My%20Model.gguf",
            Source(file="My Model.gguf", url="https://example.org/x/My%20Model.gguf"),
            "",
        ),
    ],
)
def test_other_names_are_repositories_files_or_addresses(
    typed: str, source: Source, quant: str
) -> None:
    wanted = parse_ref(typed, ENTRIES)
    assert (wanted.source, wanted.quant, wanted.entry) == (source, quant, None)


def test_what_is_nothing_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'qwen3\.5-4b'"):
        parse_ref("qwen3.5-4", ENTRIES)
    with pytest.raises(ConfigError, match=r"ends with \.gguf"):
        parse_ref("https://example.org/index.html", ENTRIES)
    with pytest.raises(ConfigError, match="isn't a model's address"):
        parse_ref("https://huggingface.co/datasets", ENTRIES)


PIECES = st.sampled_from(
    ["http://", "hf.co/", "a", "/", ":", "[", "]", "..", " ", ".gguf", "@", "%"]
)


@given(st.text(max_size=60) | st.lists(PIECES, max_size=8).map("".join))
def test_any_input_is_understood_or_refused_in_a_sentence(typed: str) -> None:
    with suppress(ConfigError):
        wanted = parse_ref(typed, ENTRIES)
        assert wanted.source.repo or wanted.source.url


@given(st.text(max_size=100), st.sets(st.sampled_from(["model", "model-2", "m"])))
def test_an_id_is_always_a_fit_one(file: str, taken: set[str]) -> None:
    import re

    found = make_id(file, dict.fromkeys(taken))
    assert found not in taken
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", found)
