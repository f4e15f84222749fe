"""A JSON Schema as the grammar that keeps a model to it."""

from __future__ import annotations

from baton.workers.local.child.sampler import GrammarRefused


def json_grammar(schema: str) -> str:
    """Return the GBNF grammar of a JSON Schema (its JSON), by llama.cpp's own rules.

    Nothing is fetched. Raises GrammarRefused for a schema that can't be turned into one.
    """
    from llama_cpp.llama_grammar import json_schema_to_gbnf

    try:
        grammar: str = json_schema_to_gbnf(schema)
    except Exception as error:  # it raises whatever its many functions meet
        raise GrammarRefused("its schema can't be kept to by a local model") from error
    return grammar
