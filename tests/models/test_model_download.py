"""Which model a person means."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from baton.core.catalogue_types import CatalogueEntry, ModelOffer, Source
from baton.core.errors import ConfigError
from baton.models.model_download import choose_file, make_id, parse_ref

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


def offers(*names: str) -> list[ModelOffer]:
    return [ModelOffer(Source("a/b", name, "0" * 40), size) for size, name in enumerate(names, 100)]


@pytest.mark.parametrize(
    ("quant", "found"),
    [
        ("", "m-Q4_K_M.gguf"),
        ("q8_0", "m-Q8_0.gguf"),
        ("Q4_K_S", "m-Q4_K_S.gguf"),
        ("m-Q8_0.gguf", "m-Q8_0.gguf"),
    ],
)
def test_of_a_repository_the_usual_file_is_taken_or_the_named_one(quant: str, found: str) -> None:
    there = offers("mmproj-m-Q4_K_M.gguf", "m-Q8_0.gguf", "m-Q4_K_S.gguf", "m-Q4_K_M.gguf")
    assert choose_file(there, quant, "a/b").source.file == found


def test_a_file_that_is_not_there_is_refused_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match=r"There are: m-Q8_0\.gguf\."):
        choose_file(offers("m-Q8_0.gguf"), "Q4", "a/b")
    with pytest.raises(ConfigError, match="only what goes with a model: mmproj"):
        choose_file(offers("mmproj.gguf"), "", "a/b")
    with pytest.raises(ConfigError, match="no GGUF files"):
        choose_file([], "Q4_0", "a/b")
    assert choose_file(offers("odd.gguf"), "", "a/b").source.file == "odd.gguf"


@pytest.mark.parametrize(
    ("files", "typed", "meant"),
    [
        (("Y-I-Compact.gguf", "Y-I.gguf"), "compact", "There are: Y-I-Compact.gguf, Y-I.gguf"),
        (("m-IQ4_XS.gguf",), "XS", "Did you mean a/b:IQ4_XS?"),
        (("m-IQ4_XS.gguf",), "4_XS", "Did you mean a/b:IQ4_XS?"),
        (("m-UD-Q4_K_XL.gguf",), "Q4_K_XL", "Did you mean a/b:UD-Q4_K_XL?"),
        (("m-Q4_K_M.gguf", "m-Q4_K_S.gguf"), "Q4_K", "a/b:Q4_K_M or a/b:Q4_K_S?"),
        (("m-Q4_0_4_4.gguf",), "Q4_0", "Did you mean a/b:Q4_0_4_4?"),
        (("m-MXFP4_MOE.gguf",), "MXFP4", "Did you mean a/b:MXFP4_MOE?"),
        (("instruct-Q8_0.gguf",), "instruct", "There are: instruct-Q8_0.gguf"),
        (("a-Q8_0.gguf", "b-Q8_0.gguf"), "Q8_0", "Name one: `baton models pull hf.co/a/b/a-Q8"),
    ],
)
def test_a_tag_that_fits_no_file_exactly_is_asked_about(
    files: tuple[str, ...], typed: str, meant: str
) -> None:
    with pytest.raises(ConfigError) as asked:
        choose_file(offers(*files), typed, "a/b")
    assert meant in f"{asked.value.message} {asked.value.hint}"


@pytest.mark.parametrize(
    ("files", "typed", "found"),
    [
        (("m-UD-Q4_K_XL.gguf", "m-Q4_K_XL.gguf"), "q4_k_xl", "m-Q4_K_XL.gguf"),
        (("m-UD-Q4_K_XL.gguf", "m-Q4_K_XL.gguf"), "UD-Q4_K_XL", "m-UD-Q4_K_XL.gguf"),
        (("m.i1-IQ4_XS.gguf", "m.i1-Q4_K_M.gguf"), "IQ4_XS", "m.i1-IQ4_XS.gguf"),
        (("Q8_0/m.gguf", "Q4_0/m.gguf"), "Q8_0", "Q8_0/m.gguf"),
        (("draft-Q8_0.gguf", "m-Q8_0.gguf"), "Q8_0", "m-Q8_0.gguf"),
        (("draft-Q8_0.gguf", "m-Q8_0.gguf"), "", "m-Q8_0.gguf"),
        (("m-DRAFT-Q8_0.gguf",), "Q8_0", "m-DRAFT-Q8_0.gguf"),
        (("m-Q8_0-00001-of-00002.gguf", "m-Q4_0.gguf"), "Q8_0", "m-Q8_0-00001-of-00002.gguf"),
        (("m-bf16.gguf", "m-f16.gguf"), "F16", "m-f16.gguf"),
    ],
)
def test_a_tag_names_a_quantisation(files: tuple[str, ...], typed: str, found: str) -> None:
    assert choose_file(offers(*files), typed, "a/b").source.file == found


@given(st.text(max_size=100), st.sets(st.sampled_from(["model", "model-2", "m"])))
def test_an_id_is_always_a_fit_one(file: str, taken: set[str]) -> None:
    import re

    found = make_id(file, dict.fromkeys(taken))
    assert found not in taken
    assert re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,63}", found)
