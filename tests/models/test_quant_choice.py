"""Which file of a repository is taken."""

from __future__ import annotations

import pytest

from baton.core.catalogue_types import ModelOffer, Source
from baton.core.errors import ConfigError
from baton.models.quant_choice import choose_file


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
