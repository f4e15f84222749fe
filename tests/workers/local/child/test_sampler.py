"""Writing within a grammar, with the real starter model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from prompt_context import PromptContext

from baton.core.sampling_settings import Sampling
from baton.workers.local import starter
from baton.workers.local.child import llama
from baton.workers.local.child.chat_template import compile_template
from baton.workers.local.child.llama_loader import LlamaError, c
from baton.workers.local.child.prompt import encode
from baton.workers.local.child.sampler import FIRST_TOKENS, TOKEN_INTERVAL, GrammarRefused, Sampler

pytestmark = [pytest.mark.sampled(0.5), pytest.mark.local_model]

PERSON = r"""
root ::= "{\"name\": " text ", \"age\": " [0-9]{1,2} ", \"likes\": [" (text (", " text){0,2})? "]}"
text ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\nt]){0,12} "\""
"""
ASKED = "Describe a person as JSON with name, age and likes."
MIXED = r'root ::= "日本" [0-9]{2} "🎉" [a-z]{3} "é"'


@pytest.fixture(scope="module")
def model() -> Iterator[llama.Model]:
    llama.start(lambda _: None)
    model = llama.Model(starter().path)
    yield model
    model.free()


class GrammarWriter:
    """A model that was asked something, as often as one likes."""

    def __init__(self, model: llama.Model) -> None:
        template, _ = compile_template(
            model.template, model.special_text("bos"), model.special_text("eos")
        )
        self._model = model
        self.vocabulary = model.vocabulary
        self._context = PromptContext(model, 1024, 1, lambda: False)
        self._prompt = encode(model, template.render, [{"role": "user", "content": ASKED}])

    def write(self, how: Sampling, grammar: str | None, most: int = 160) -> tuple[str, int]:
        """Return what the model writes, and in how many tokens."""
        self._context.read(self._prompt, lambda done, total: None)
        with closing(self._model.sampler(how, grammar)) as sampler:
            tokens = list(islice(self._context.write(sampler), most))
        return b"".join(map(self._model.piece, tokens)).decode("utf-8", "replace"), len(tokens)

    def watch(self, sampler: Sampler, most: int) -> list[float]:
        """Return the log-probability of each token that is written, worked out one by one."""
        self._context.read(self._prompt, lambda done, total: None)
        logs: list[float] = []
        choose = sampler.next

        def next_one(ctx: Any, place: int) -> int:
            figures = c.llama_get_logits_ith(ctx, place)
            row = np.ctypeslib.as_array(figures, (self._model.vocabulary,)).astype(np.float64)
            token = choose(ctx, place)
            logs.append(float(row[token] - np.logaddexp.reduce(row)))
            return token

        sampler.next = next_one  # type: ignore[method-assign]
        for _ in islice(self._context.write(sampler), most):
            pass
        return logs


@pytest.fixture(scope="module")
def writer(model: llama.Model) -> GrammarWriter:
    return GrammarWriter(model)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("temperature", "seed", "penalty"),
    [(0.0, 1, 1.0), (0.0, 1, 1.3), (1.5, 1, 1.0), (1.5, 2, 1.3), (1.5, 3, 1.0), (1.5, 4, 1.0)],
)
def test_what_is_written_always_parses(
    writer: GrammarWriter, temperature: float, seed: int, penalty: float
) -> None:
    how = Sampling(temperature, repeat_penalty=penalty, seed=seed)
    text, _ = writer.write(how, PERSON)
    assert json.loads(text).keys() == {"name", "age", "likes"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("wished", [{"repeat_penalty": 1.3}, {"frequency_penalty": 0.9}])
def test_penalties_for_the_likeliest_are_those_for_all(
    writer: GrammarWriter,
    monkeypatch: pytest.MonkeyPatch,
    temperature: float,
    wished: dict[str, float],
) -> None:
    how = Sampling(temperature, seed=7, **wished)  # type: ignore[arg-type]
    text, _ = writer.write(how, None)
    everything, narrow = writer.vocabulary, c.llama_sampler_init_top_k
    monkeypatch.setattr(
        c, "llama_sampler_init_top_k", lambda k: narrow(k if k == how.top_k else everything)
    )
    assert writer.write(how, None)[0] == text
    plain = Sampling(temperature, seed=7)
    assert writer.write(plain, None)[0] != text


def test_how_sure_the_model_was_is_what_its_figures_say(
    writer: GrammarWriter, model: llama.Model
) -> None:
    how = Sampling(0.0, repeat_penalty=1.3)
    with closing(model.sampler(how, None)) as sampler:
        found = sampler.confidence
        assert (found.mean, found.least, found.first) == (None, None, None)
        logs = writer.watch(sampler, most=12)
        mean = found.mean
        assert (found.least, found.first) == pytest.approx((min(logs), logs[0]), abs=1e-4)
    assert mean == pytest.approx(sum(logs) / len(logs), abs=1e-4)
    assert all(one < 0 for one in logs)


def test_of_a_long_text_each_fourth_token_counts(writer: GrammarWriter, model: llama.Model) -> None:
    with closing(model.sampler(Sampling(1.5, seed=3), r"root ::= [^\x00]{300}")) as sampler:
        logs = writer.watch(sampler, most=FIRST_TOKENS + 4 * TOKEN_INTERVAL)
        mean = sampler.confidence.mean
    counted = [
        one for n, one in enumerate(logs, start=1) if n <= FIRST_TOKENS or n % TOKEN_INTERVAL == 0
    ]
    assert len(logs) > len(counted) > FIRST_TOKENS
    assert mean == pytest.approx(sum(counted) / len(counted), abs=1e-4)


def test_each_line_shows_how_sure_the_model_was_of_it(
    writer: GrammarWriter, model: llama.Model
) -> None:
    with closing(model.sampler(Sampling(1.5, seed=3), r"root ::= [^\x00]{300}", 40)) as sampler:
        first = [*writer.watch(sampler, most=4)]
        sampler.confidence.end_line()
        second = writer.watch(sampler, most=36)
        sampler.confidence.end_line()
        lines = sampler.confidence.lines
    assert lines == pytest.approx([fmean(first), fmean(second)], abs=1e-4)


def test_within_a_form_the_model_is_as_sure_as_it_was_of_the_words(
    writer: GrammarWriter, model: llama.Model
) -> None:
    sure = []
    for form in (r"root ::= [^\x00]*", r'root ::= "Zurich" [0-9]{20}'):
        with closing(model.sampler(Sampling(0), form)) as sampler:
            logs = writer.watch(sampler, most=12)
            assert sampler.confidence.mean == pytest.approx(sum(logs) / len(logs), abs=1e-4)
            sure.append(sum(logs) / len(logs))
    assert sure[0] > sure[1] + 1, "it would not have said that by itself"


def test_a_seed_repeats_chances_within_a_form(writer: GrammarWriter) -> None:
    first, again, other = (writer.write(Sampling(1.5, seed=n), PERSON, most=15) for n in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_a_form_that_the_model_would_never_choose(
    writer: GrammarWriter, temperature: float
) -> None:
    text, _ = writer.write(Sampling(temperature, seed=1), MIXED)
    assert (text[:2], text[4], text[8]) == ("日本", "🎉", "é")


def test_one_text_alone_is_written_whole_and_then_it_ends(writer: GrammarWriter) -> None:
    alone = "Zürich, Zürich, Zürich! " * 3
    text, _ = writer.write(Sampling(0, repeat_penalty=1.3), f'root ::= "{alone}"')
    assert text == alone


def test_it_may_not_end_before_the_form_does(writer: GrammarWriter) -> None:
    text, _ = writer.write(Sampling(0), r"root ::= [a-z .]{80}")
    assert len(text) == 80


def test_a_cap_cuts_within_the_form(writer: GrammarWriter) -> None:
    text, tokens = writer.write(Sampling(0), PERSON, most=5)
    assert tokens == 5
    assert '{"name": "'.startswith(text[:10])


def test_a_choice_that_the_form_allows_is_the_free_one(writer: GrammarWriter) -> None:
    how = Sampling(0, repeat_penalty=1.1)
    assert writer.write(how, r"root ::= [^\x00]*", most=25) == writer.write(how, None, most=25)


@pytest.mark.parametrize(
    ("grammar", "why"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ('root ::= "a"\0"b"', "isn't text"),
        ('root ::= "\ud800"', "isn't text"),
        ("root ::= missing", "can't read"),
        ('other ::= "a"', "can't read"),
        ('root ::= root "a" | "b"', "can't read"),
        ("root ::= [", "can't read"),
        ('root ::= "a"{1000000}', "{1000000} times, not up to 2,000"),
        ('root ::= "a"{5,2}', "{5,2} times"),  # llama.cpp counts down from it for ever
        ('root ::= "a"{5, # more\n2}', "times"),
        ('root ::= "a"{9', "{9 times"),
        ('root ::= "a"{2}{2}', "times"),
        ('root ::= "a"*{2}', "times"),
        ('root ::= "' + "a" * 500 + '"{300}', "repeats more than 100,000 elements"),
        ("root ::= [" + "a" * 500 + "]{0,300}", "repeats more than 100,000 elements"),
        ("root ::= " + '"a"{0,2000} ' * 51, "repeats more than 100,000 elements"),
        ("root ::= # to the line's end\r" + "(" * 99 + '"a"' + ")" * 99, "nests more than 64"),
        ("root ::= " + "[" * 60_000, "can't read"),
        ("root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000, "nests more than 64"),
        ('root ::= "' + "a" * 70_000 + '"', "more than 65,536 bytes"),
    ],
)
def test_a_grammar_that_cannot_be_used_is_refused(
    model: llama.Model, grammar: str, why: str
) -> None:
    with pytest.raises(GrammarRefused, match=re.escape(why)):
        model.sampler(Sampling(), grammar)


def test_parentheses_that_are_mere_text_are_not_counted(writer: GrammarWriter) -> None:
    text, _ = writer.write(Sampling(0), 'root ::= "((((((((" {9} # ((((')
    assert text == "(" * 72


def test_counts_that_are_mere_text_are_none(writer: GrammarWriter) -> None:
    text, _ = writer.write(Sampling(0), 'root ::= "{9,1}" [{2}] {2} # {3,1}')
    assert text.startswith("{9,1}")
    assert len(text) == 7


def test_a_form_without_a_way_on_is_reported(model: llama.Model, writer: GrammarWriter) -> None:
    unknown = next(n for n in range(1, 32) if not model.tokenise(chr(n), special=False))
    with pytest.raises(LlamaError, match="no word that it knows"):
        writer.write(Sampling(1.0, seed=1), rf'root ::= "a\x{unknown:02x}"')
