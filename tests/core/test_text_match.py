"""A text that comes back is recognised, however it is written."""

from __future__ import annotations

import unicodedata

from hypothesis import given, strategies as st

from baton.core import text_match
from baton.core.messages import Message, Role
from baton.core.text_match import fingerprint, opening, plain_text, said_texts

LONG = "Mon médecin dit que l'opération du 3 juin s'est bien passée."


@given(st.text(), st.integers(1, 40))
def test_spaces_case_and_form_make_no_difference(text: str, repeats: int) -> None:
    whole = text * repeats
    decomposed = unicodedata.normalize("NFD", whole)
    assert plain_text(decomposed) == plain_text(whole)
    spaced = "".join(f" {sign}\n" for sign in whole)
    if any(sign.isalnum() for sign in plain_text(whole)):
        assert fingerprint(spaced, Role.USER) == fingerprint(whole, Role.USER)


def test_the_edge_of_a_slice_makes_no_difference() -> None:
    edge = text_match._SLICE_CHARS
    for before in range(edge - 3, edge + 1):
        text = "x" * before + "éé" + LONG
        assert plain_text(unicodedata.normalize("NFD", text)) == plain_text(text)


def test_a_long_text_is_found_within_another_whatever_its_form() -> None:
    quoted = f"As I said: „{unicodedata.normalize('NFD', LONG).upper()}“ — and now?"
    said = said_texts([Message(Role.USER, quoted)])
    begins = opening(LONG)
    assert begins is not None
    assert said.holds(LONG, said.find([begins])[begins])
    assert not said_texts([Message(Role.USER, "As I said.")]).find([begins])
