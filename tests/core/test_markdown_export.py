"""A transcript holds every word and says how each answer ended."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from baton.core.history_types import Conversation
from baton.core.labels import Label
from baton.core.markdown_export import to_markdown
from baton.core.messages import Attachment, Role, Turn, TurnStatus

CONVERSATION = Conversation("c", "Capitals", Label.CLOUD, 1_700_000_000.0, 0.0, 2, "a", None, None)


def turn(role: Role, text: str, **more: object) -> Turn:
    fields: dict[str, object] = {"status": TurnStatus.DONE, "label": Label.CLOUD} | more
    return Turn("t", "c", None, role, text, created=0.0, **fields)  # type: ignore[arg-type]


def test_a_conversation_reads_like_one() -> None:
    turns = [
        turn(Role.USER, "Which one is France's?", files=(Attachment("map.txt", "…", 1200),)),
        turn(Role.ASSISTANT, "Paris.\n\n- on the Seine\n", worker="small"),
    ]
    assert to_markdown(CONVERSATION, turns) == (
        "# Capitals\n\n*2023-11-14 22:13 UTC*\n\n"
        "## You\n\n*Attached: map.txt (1,200 bytes)*\n\nWhich one is France's?\n\n"
        "## small\n\nParis.\n\n- on the Seine\n"
    )


@pytest.mark.parametrize("status", [s for s in TurnStatus if s is not TurnStatus.DONE])
def test_an_answer_that_did_not_end_well_says_so(status: TurnStatus) -> None:
    whole = to_markdown(CONVERSATION, [turn(Role.ASSISTANT, "Pa")])
    partial = to_markdown(CONVERSATION, [turn(Role.ASSISTANT, "Pa", status=status)])
    assert partial.startswith(whole)
    assert partial.rstrip().endswith(")*")


def test_a_private_conversation_says_so() -> None:
    private = Conversation("c", "x", Label.LOCAL, 0.0, 0.0, 0, None, None, None)
    assert "stays on this machine" in to_markdown(private, [])


@given(title=st.text(), texts=st.lists(st.text(min_size=1)))
def test_no_word_is_lost_and_no_title_breaks_out(title: str, texts: list[str]) -> None:
    conversation = Conversation("c", title, Label.CLOUD, 0.0, 0.0, 0, None, None, None)
    written = to_markdown(conversation, [turn(Role.USER, text) for text in texts])
    assert written.partition("\n\n*1970-01-01")[0].count("\n") == 0
    for text in texts:
        assert text.strip("\n") in written or not text.strip()
