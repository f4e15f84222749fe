"""A transcript holds every word and says how each answer ended."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from markdown_it import MarkdownIt

from baton.core.history_types import Conversation
from baton.core.labels import Label
from baton.core.markdown import from_markdown, to_markdown
from baton.core.messages import Attachment, Role, Turn, TurnStatus
from baton.core.sanitiser import one_line

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
        "## small\n\nParis.\n\n- on the Seine\n\n"
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


PIECES = [
    *("```", "````", "~~~", "~~~~~", "``` py", "    ```", "  ```", "- ```", "> ```", "`"),
    *("## You", "# A title", "===", "---", "- - -", "<!--", "<div>", "<script>", "-->", ">", "> a"),
    *("*(stopped)*", "*Attached: a (1 bytes)*", "*2023-11-14 22:13 UTC*", "- a", "1. a", " ", "\t"),
    *("\n", "\n\n", "\r", "\r\n", "a", "\u2028", "[a]: b", "| a |", "\\", "&#13;"),
]
WORKERS = ["small", "You", "Answer", "", "small (worker)", "openai/gpt-5"]
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("\n".join) | st.text(max_size=30)
written_turns = st.builds(
    turn,
    st.sampled_from([Role.USER, Role.ASSISTANT]),
    texts,
    worker=st.sampled_from(WORKERS),
    status=st.sampled_from([s for s in TurnStatus if s is not TurnStatus.STREAMING]),
    files=st.lists(st.just(Attachment("map (1).txt", "", 1200)), max_size=2).map(tuple),
)


def facts(role: str, text: str, worker: str, status: str) -> tuple[str, str, str, str]:
    return role, text, worker if role == "assistant" else "", status


@given(title=st.text(), turns=st.lists(written_turns, max_size=4))
def test_turns_stay_apart_whatever_is_in_them_and_come_back_as_they_were(
    title: str, turns: list[Turn]
) -> None:
    conversation = Conversation("c", title, Label.LAN, 60.0, 0.0, 0, None, None, None)
    written = to_markdown(conversation, turns)
    heads = [token for token in MarkdownIt().parse(written) if token.level == 0]
    assert [token.tag for token in heads if token.type == "heading_open"] == ["h1"] + ["h2"] * len(
        turns
    )
    [read] = from_markdown(written)
    assert (read["title"], read["label"], read["created"]) == (one_line(title), "lan", 60.0)
    assert [facts(t["role"], t["text"], t["worker"], t["status"]) for t in read["turns"]] == [
        facts(t.role.value, t.text, t.worker, t.status.value) for t in turns
    ]
    assert [[f["size"] for f in t["files"]] for t in read["turns"]] == [
        [1200] * len(t.files) for t in turns
    ]
    assert len(from_markdown(f"{written}\n{written}")) == 2


def test_an_ordinary_answer_with_code_stands_as_it_is() -> None:
    text = "So:\n\n```python\n# a comment\n## You\n```\n\n- done"
    assert f"\n\n{text}\n" in to_markdown(CONVERSATION, [turn(Role.ASSISTANT, text)])
    quoted = to_markdown(CONVERSATION, [turn(Role.ASSISTANT, "So:\n```\na")])
    assert "\n\n> So:\n> ```\n> a\n" in quoted


@pytest.mark.parametrize("text", ["", "# a", "a", "# a\n\n## You\n\nb", "# a\n\n*x*\n\n## You"])
def test_other_markdown_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        from_markdown(text)
