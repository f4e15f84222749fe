"""Schemas as grammars: what is too large is refused at once, and llama.cpp reads all else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, strategies as st

from baton.core.planning.plan_schema import PlanSchema
from baton.core.schema_bounds import MAX_COUNT, MAX_DEPTH, MAX_VALUES, schema_problem
from baton.workers.local.child import llama
from baton.workers.local.child.json_grammar import json_grammar
from baton.workers.local.child.llama_loader import c
from baton.workers.local.child.sampler import MAX_GRAMMAR_BYTES, GrammarRefused, _checked_grammar
from support.gbnf import Grammar
from support.tiny_models import tiny


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def references(levels: int, width: int, mark: str = "_") -> dict[str, Any]:
    """Return a schema of definitions each of which refers to the next one several times."""
    definitions: dict[str, Any] = {f"d{mark}{levels}": {"type": "string"}}
    for level in range(levels):
        further = {"$ref": f"#/$defs/d{mark}{level + 1}"}
        parts = {f"p{n}": further for n in range(width)}
        definitions[f"d{mark}{level}"] = {"properties": parts, "required": [*parts]}
    first = {"x": {"$ref": f"#/$defs/d{mark}0"}}
    return {"type": "object", "properties": first, "$defs": definitions}


def properties(count: int, *, required: bool = False, mark: str = "p") -> dict[str, Any]:
    parts = {f"{mark * (n + 1)}": {"const": n} for n in range(count)}
    return {"type": "object", "properties": parts, "required": [*parts] if required else []}


STRING, LIST = {"type": "string"}, {"type": "array", "items": {"type": "string"}}


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({**STRING, "minLength": 10**9}, "minLength is 1,000,000,000; at most 10,000 can"),
        ({**STRING, "maxLength": MAX_COUNT + 1}, "maxLength is 10,001;"),
        ({**STRING, "maxLength": 1e300}, "maxLength is a number of more than 15 digits;"),
        ({**STRING, "minLength": 10**4000}, "minLength is a number of more than 15 digits;"),
        ({**STRING, "minLength": float("nan")}, "minLength is a number of"),
        ({**LIST, "minItems": 10**8}, "minItems is 100,000,000;"),
        ({**LIST, "maxItems": 10**8}, "maxItems is 100,000,000;"),
        ({"type": "object", "minProperties": 10**8}, "minProperties is"),
        ({"type": "object", "maxProperties": 10**8}, "maxProperties is"),
        ({**STRING, "pattern": "^a{0,100000000}$"}, "A count of a pattern is 100,000,000;"),
        (
            {**STRING, "pattern": "^(a{7}b){ 99999999999}$"},
            "A count of a pattern is 99,999,999,999;",
        ),
        ({"enum": [*range(MAX_VALUES)]}, "has more than 10,000 parts"),
        (nested(MAX_DEPTH), "nested more than 100 levels"),
        ({"properties": {"minLength": {"minLength": 10**9}}}, "minLength is"),
        ({"$defs": {"a": {"anyOf": [{}, {**STRING, "minLength": 10**9}]}}}, "minLength is"),
    ],
    ids=range(15),
)
def test_a_schema_that_is_too_large_is_refused_in_a_sentence(schema: object, problem: str) -> None:
    assert problem in schema_problem(schema)
    with pytest.raises(GrammarRefused):
        json_grammar(json.dumps(schema))


@pytest.mark.parametrize(
    "schema",
    [
        None,
        True,
        [],
        "text",
        {"minLength": "many", "pattern": 7},
        {**STRING, "minLength": MAX_COUNT},
        {"const": {"minLength": 10**9}, "default": [{"maxItems": 10**9}]},
        {"properties": {"pattern": {"type": "string"}, "maxItems": {"type": "integer"}}},
        {**STRING, "pattern": "^Pay {10000} of, 20000, 30000}{ $"},
        nested(MAX_DEPTH // 2),
        {**STRING, "minimum": 10**400, "multipleOf": 1e-300},
    ],
)
def test_whatever_else_it_is_has_no_such_problem(schema: object) -> None:
    assert schema_problem(schema) == ""


@pytest.mark.parametrize(
    "schema",
    [
        references(60, 2),
        references(30, 30),
        properties(900),
        {"anyOf": [properties(60) for _ in range(60)]},
        properties(1500, required=True, mark="é"),
        {"allOf": [{"anyOf": [properties(1, mark=f"{n}-") for n in range(30)]}] * 40},
        {**STRING, "pattern": "^" + "(" * 9000 + "a" + ")" * 9000 + "$"},
        {**STRING, "pattern": "^" + "a*" * 40_000 + "$"},
        {"const": "a" * 10**6},
        {"$ref": "#"},
    ],
    ids=range(10),
)
def test_what_only_its_rules_show_is_refused_too(schema: object) -> None:
    with pytest.raises(GrammarRefused):
        _checked_grammar(json_grammar(json.dumps(schema)))


@pytest.mark.parametrize(
    ("schema", "allowed", "refused"),
    [
        ({**STRING, "maxLength": 300}, ['""', f'"{"a" * 300}"'], [f'"{"a" * 301}"']),
        ({**STRING, "minLength": 70, "maxLength": 71}, [f'"{"a" * 70}"'], [f'"{"a" * 69}"']),
        ({**STRING, "minLength": 3}, [f'"{"a" * 99}"'], ['"aa"']),
        ({**LIST, "maxItems": 2}, ["[]", '["a"]', '["a","b"]'], ['["a","b","c"]', '["a",]']),
        ({**LIST, "minItems": 2}, ['["a","b"]', '["a","b","c"]'], ["[]", '["a"]']),
        ({**LIST, "minItems": 1, "maxItems": 1}, ['["a"]'], ["[]", '["a","b"]']),
        ({**LIST, "maxItems": 0}, ["[]"], ['["a"]']),
        ({**STRING, "pattern": "^(ab){2}[0-9]{1,90}$"}, ['"abab7"'], ['"ab7"', '"abab"']),
    ],
)
def test_counts_are_kept_to(schema: object, allowed: list[str], refused: list[str]) -> None:
    source = re.sub(r"\{(\d+),\}", r"{\1,999}", json_grammar(json.dumps(schema)))
    grammar = Grammar(re.sub(r"\*", "{0,999}", source))
    assert [grammar.allows(text) for text in allowed] == [True] * len(allowed)
    assert [grammar.allows(text) for text in refused] == [False] * len(refused)


@given(least=st.none() | st.integers(-2000, 2000), size=st.integers(0, 3000), by=st.integers(-2, 2))
def test_an_integer_keeps_to_its_bounds(least: int | None, size: int, by: int) -> None:
    most = (least or 0) + size
    schema = {"type": "integer", "exclusiveMaximum": most + 1}
    schema |= {} if least is None else {"minimum": least}
    grammar = Grammar(json_grammar(json.dumps(schema)))
    for number in {0, (least or 0) + by, most + by, (least or 0) + size // 2}:
        is_within = number <= most and (least is None or number >= least)
        assert grammar.allows(str(number)) == is_within, number


def test_bounds_without_an_integer_between_them_are_refused() -> None:
    for bounds in ({"minimum": 4, "maximum": 3}, {"exclusiveMinimum": 3, "exclusiveMaximum": 4}):
        with pytest.raises(GrammarRefused):
            json_grammar(json.dumps({"type": "integer", **bounds}))


def test_a_number_is_never_larger_than_a_program_can_read() -> None:
    grammar = Grammar(re.sub(r"\*", "{0,99}", json_grammar('{"type": "number"}')))
    assert grammar.allows("-1.5e+99")
    assert not grammar.allows("1e100")


COUNTS = st.one_of(
    st.integers(-2, 12),
    st.sampled_from([63, 99, 1999, 2000, 2001, 9999, 10**4, 10**9, 10**30, 2.0, 1e99, "7", None]),
)
PATTERNS = st.sampled_from(
    [
        *("^a$", "^[a-z]{3}$", "^(a{40}){50}$", "^a{2000}b{0,2000}$", "^a{5,2}$", "a{3}", "^a{"),
        *("^((ab){99}){99}$", "^(x|y{2,})+$", "^a{9}{9}{9}{9}$", "^" + "(ab){3}" * 300 + "$"),
    ]
)
LEAVES = st.one_of(
    st.sampled_from([{"type": "number"}, {"type": "null"}, {}, {"$ref": "#/properties/a"}]),
    st.fixed_dictionaries(
        {"type": st.just("integer")}, optional={"minimum": COUNTS, "exclusiveMaximum": COUNTS}
    ),
    st.fixed_dictionaries({"type": st.just("string"), "pattern": PATTERNS}),
    st.fixed_dictionaries(
        {"type": st.just("string")}, optional={"minLength": COUNTS, "maxLength": COUNTS}
    ),
    st.fixed_dictionaries({"enum": st.lists(st.text(max_size=9), max_size=9)}),
)
NAMES = st.sampled_from(["a", "b_c", "é", "minLength", "const", "n" * 400])


def _wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=5)
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("array"), "items": inner},
            optional={"minItems": COUNTS, "maxItems": COUNTS},
        ),
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=6)},
            optional={"required": st.lists(NAMES, max_size=4), "additionalProperties": inner},
        ),
        st.fixed_dictionaries({"type": st.just("array"), "prefixItems": several}),
        *(st.fixed_dictionaries({key: several}) for key in ("anyOf", "oneOf", "allOf")),
    )


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    llama.start(lambda _: None)
    model = llama.Model(tiny(tmp_path_factory.mktemp("tiny"), "llama"))
    yield model._vocab
    model.free()


@pytest.mark.local_model
@given(schema=st.recursive(LEAVES, _wider, max_leaves=30))
def test_any_schema_is_refused_or_read_by_llama_cpp(vocabulary: Any, schema: Any) -> None:
    try:
        grammar = json_grammar(json.dumps(schema))
        source = _checked_grammar(grammar)
    except GrammarRefused:
        return
    assert schema_problem(schema) == ""
    assert len(source) <= MAX_GRAMMAR_BYTES
    if sampler := c.llama_sampler_init_grammar(vocabulary, source, b"root"):
        c.llama_sampler_free(sampler)


def test_what_baton_asks_for_itself_is_within_the_bounds() -> None:
    files, workers = (tuple(f"{what} {n}" for n in range(20)) for what in ("file", "worker"))
    asked = PlanSchema(files, history=True, workers=workers, done=1, usable=(1,)).answer_format()
    assert _checked_grammar(asked.grammar)
    assert schema_problem(json.loads(asked.schema)) == ""
