"""No shown text controls the terminal, and no crash report holds secrets."""

from __future__ import annotations

import asyncio
import random
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from textual.worker import WorkerFailed

from baton.core.errors import WorkerUnavailable
from baton.core.events import Decision, Offered
from baton.core.labels import Label
from baton.core.ledger_types import Egress, Status
from baton.core.messages import Attachment, Chunk, Prompt, Request, Text, TurnStatus
from baton.core.ports import CallOffer, Choice, ConversationPosition, Question
from baton.core.view import RunView
from baton.history import Store
from baton.tui import crash_report, themes
from baton.tui.answer_markdown import parse_blocks
from baton.tui.app import BatonApp
from baton.tui.screens.traffic_screens import SentScreen
from baton.tui.screens.workflow_screen import WorkflowScreen
from baton.tui.widgets.answer import block_painter
from support.app_session import GPT, AppSession, open_app

DOCUMENT = Path(__file__).parents[2] / "docs" / "app.md"
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
PIECES = [
    "\x1b]52;c;aGk=\x07", "\x1b]0;title\x07", "\x1b[2J", "\x9b31m", "\x1b[201~", "\x1b[6n", "\x00",
    "\u202e", "\u2066", "\r", "\x08", "\x7f", "[/]", "[/bold]", "[red]", "[@click=app.quit]x[/]",
    "[link=http://x]", "\\[", "[", "]", "{", "$x", "<b>", "<!--", "![a](http://b/c)",
    "[a](javascript:x)", "[a](http://b)", "```", "```python\n", "~~~", "| a | b |\n|---|---|\n",
    "| 1 |\n", "- ", "  - ", "1. ", "999999999. ", "> ", ">>>>", "# ", "\n\n", "\n", "---\n",
    "===\n", "    ", "\t", "*", "**", "_", "`", "``", "~~", "&amp;", "&#27;", "&#x9b;", "&#0;",
    "\u2028", "\x85", "日本語", "é", "\u0301", "👩‍👩‍👧", "\U000e0041", "word ", "http://example.org/?a=[b]",
]  # fmt: skip


def fuzz(seed: int, count: int) -> Iterator[str]:
    dice = random.Random(seed)
    for _ in range(count):
        yield "".join(dice.choice(PIECES) for _ in range(dice.randrange(1, 25)))


def pieces(text: str, seed: int) -> Iterator[str]:
    dice = random.Random(seed)
    while text:
        size = dice.randrange(1, 5)
        yield text[:size]
        text = text[size:]


def assert_calm(session: AppSession) -> None:
    """Look at everything that would go to the terminal."""
    for strip in session.app.screen._compositor.render_strips():
        for segment in strip:
            assert not UNSAFE.search(segment.text), repr(segment.text)
            assert segment.control is None
            assert segment.style is None or segment.style.link is None


async def through_every_widget(tmp_path: Path, texts: list[str]) -> None:
    current = ""

    def script(request: Request) -> Iterable[Chunk | BaseException]:
        yield from map(Text, pieces(current, len(current)))
        if len(current) % 3 == 0:
            raise WorkerUnavailable(current, current)

    async with open_app(tmp_path, script, size=(60, 40)) as session:
        store, chat = session.services.store, session.chat
        for current in texts:
            file = Attachment(current, current, 3)
            begun = await store.begin(Prompt(current, (file,)), ConversationPosition(), Label.CLOUD)
            await store.write(begun.answer, current, TurnStatus.LOST, current)
            await store.rename(begun.conversation, current)
            await chat.conversation.open(begun.conversation)
            chat.composer.put(current, (file,))
            assert_calm(session)
            await session.press("enter")
            await session.wait_until(lambda: not chat.queue.is_busy)
            chat.footer.say(current)
            await chat.transcript.note(current, error=True)
            chat.composer.show_waiting([current])
            await session.settled()
            assert_calm(session)
            await session.press("ctrl+s")
            await session.wait_until(lambda: session.screen_name == "ConversationsScreen")
            await session.settled()
            assert_calm(session)
            await session.press("escape")
            await session.wait_until(lambda: session.screen_name == "ChatScreen")
            await store.purge(begun.conversation)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(6))
async def test_hostile_texts_through_every_widget(tmp_path: Path, seed: int) -> None:
    texts = [text for text in fuzz(seed, 2) if not text.startswith("/")]
    await through_every_widget(tmp_path, [*texts, "".join(PIECES)])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
async def test_ten_thousand_hostile_texts(tmp_path: Path, seed: int) -> None:
    """Five at a time, since each time takes a third of a second."""
    texts = list(fuzz(seed, 1000))
    together = [" ".join(texts[n : n + 5]) for n in range(0, len(texts), 5)]
    await through_every_widget(tmp_path, [t for t in together if not t.startswith("/")])


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(8))
def test_no_text_breaks_the_markdown(seed: int) -> None:
    """Also not: any prefix of it, as it is while it streams."""
    from baton.core.sanitiser import sanitise

    ink = block_painter("dark")
    for text in fuzz(seed, 30):
        clean = sanitise(text)
        for end in range(1, len(clean) + 1, 3):
            for block in parse_blocks(clean[:end]):
                for strip in ink.draw(block, 40):
                    assert not UNSAFE.search(strip.text), repr(clean)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_no_text_breaks_the_markdown_for_long(seed: int) -> None:
    from baton.core.sanitiser import sanitise

    for text in fuzz(seed, 1000):
        for block in parse_blocks(sanitise(text)):
            for strip in block_painter("light").draw(block, 30):
                assert not UNSAFE.search(strip.text)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(7, 11))
async def test_an_answer_streamed_anyhow_ends_as_one_drawn_at_once(
    tmp_path: Path, seed: int
) -> None:
    from baton.tui.widgets.answer import AnswerView

    async with open_app(tmp_path) as session:
        for number, text in enumerate((*fuzz(seed, 5), "word\n#tag\n\n> a\n*b*")):
            clean = crash_free(text)
            whole, grown = AnswerView(clean), AnswerView()
            await session.chat.transcript.insert(whole)
            await session.chat.transcript.insert(grown)
            await session.settled()
            for piece in pieces(clean, number) if number < 5 else clean:
                grown.append(piece)
            await session.settled()
            if not re.search(r"^ {0,3}\[[^\]]+\]:", clean, re.M):  # links defined in another place
                drawn = [[line.text.rstrip() for line in one._lines] for one in (whole, grown)]
                assert drawn[0] == drawn[1], repr(clean)
            await whole.remove()
            await grown.remove()


def crash_free(text: str) -> str:
    from baton.core.sanitiser import sanitise

    return sanitise(text)


async def test_a_hostile_question_and_notice(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        text = "\x1b[2J[/]\u202e"
        question = Question(text, (Choice("a", text), Choice("b", text)), "b")
        session.chat.run_worker(session.chat.questions.ask(question))
        await session.wait_until(lambda: session.chat.question)
        await session.settled()
        assert_calm(session)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(3))
async def test_hostile_texts_of_an_offer_and_of_what_left(tmp_path: Path, seed: int) -> None:
    text, more, name = fuzz(40 + seed, 3)
    card = replace(GPT, name=name, model=more, provider=more, address=text if seed else "")
    offer = CallOffer(card, more, text, f"1 {name}", 10, 10, "day", more)
    question = Question(text, (Choice("a", more), Choice("b", name)), "a", offer)
    now = time.time()
    left = Egress(1, now, "c", "r", name, more, 9, text, 1, 1, Status.SETTLED, text.encode())
    decided = Offered(name, more, 1, 1, text, Decision.CEILING, more, at=1.0)
    run = RunView(status="finished", notice=more, offers=(decided,))
    async with open_app(tmp_path, size=(60, 40)) as session:
        asked = session.chat.run_worker(session.chat.questions.ask(question))
        await session.wait_until(lambda: session.app.screen.query("OfferCard"))
        await session.settled()
        assert_calm(session)
        await session.press("escape")
        assert await asked.wait() == "a"
        roster = session.chat.context.roster
        screens = (SentScreen(left), WorkflowScreen(lambda: run, roster, session.services.ledger))
        for screen in screens:
            await session.app.push_screen(screen)
            await session.settled()
            assert_calm(session)
            await session.press("escape")


async def test_pasted_text_is_cleaned(tmp_path: Path) -> None:
    from textual.events import Paste

    async with open_app(tmp_path) as session:
        session.app.post_message(Paste("a\x1b[31mb\u202ec"))
        await session.wait_until(lambda: session.chat.composer.text)
        assert session.chat.composer.text == "ab�c"
        session.chat.composer.put("\x1b[1mfrom the editor\x1b[m")
        assert session.chat.composer.text == "from the editor"


@pytest.mark.sampled
@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
async def test_pasted_lines_stay_lines(tmp_path: Path, end: str) -> None:
    from textual.events import Paste

    lines = [f"line {number}" for number in range(5_000)]
    asked: list[str] = []

    def script(request: Request) -> Iterable[Chunk]:
        asked.append(request.messages[-1].text)
        yield Text("read")

    async with open_app(tmp_path, script) as session:
        session.app.post_message(Paste(end.join(("def f():", "    return 1", "", "print(f())"))))
        await session.wait_until(lambda: session.chat.composer.text)
        assert session.chat.composer.text == "def f():\n    return 1\n\nprint(f())"
        session.app.post_message(Paste(end.join(lines)))
        await session.wait_until(lambda: "pasted text (" in session.screen_text())
        await session.press("enter")
        await session.wait_until(lambda: asked)
        assert "\n".join(lines) in asked[0]


async def test_a_text_pasted_while_the_draft_is_read_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from textual.events import Paste

    reading, pasted = asyncio.Event(), asyncio.Event()
    draft = Store.draft

    async def read_slowly(store: Store, conversation: str) -> str:
        reading.set()
        await pasted.wait()
        return await draft(store, conversation)

    monkeypatch.setattr(Store, "draft", read_slowly)
    async with open_app(tmp_path, settle=False) as session:
        await reading.wait()
        session.app.post_message(Paste("word " * 5_000))
        await session.wait_until(lambda: "pasted text (" in session.screen_text())
        pasted.set()
        await session.settled()
        assert [file.size for file in session.chat.composer.pasted] == [25_000]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("method", "keys"),
    [
        ("conversation.ConversationController.open_new", ("ctrl+n",)),
        ("conversation.ConversationController.find", ("ctrl+s",)),
        ("runs.RunController.began", ("h", "i", "enter")),
    ],
    ids=["in an action", "in a worker", "in a run"],
)
async def test_a_bug_leaves_a_report_without_anyones_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, keys: tuple[str, ...]
) -> None:
    async def explode(*_: object, **__: object) -> None:
        canary = "canary-in-a-local-variable"
        raise ValueError(f"canary-in-a-message {canary}")

    monkeypatch.setattr(f"baton.tui.chat.{method}", explode)
    app: BatonApp | None = None

    async def crashing() -> None:
        nonlocal app
        async with open_app(tmp_path) as session:
            app = session.app
            await session.press(*keys)
            await session.wait_until(lambda: not session.app.is_running)

    with pytest.raises((ValueError, WorkerFailed), match="canary"):
        await crashing()
    assert app is not None
    assert app.report is not None
    report = app.report.read_text("utf-8")
    assert "ValueError" in report
    assert "explode" in report
    assert "canary-in-a-local" not in report.replace('canary = "canary-in-a-local-variable"', "")
    assert "canary-in-a-message canary" not in report
    assert stat.S_IMODE(app.report.stat().st_mode) == 0o600
    assert app.return_code == 1


def test_the_causes_of_an_error_are_in_the_report(tmp_path: Path) -> None:
    try:
        try:
            raise KeyError("secret")
        except KeyError as error:
            raise RuntimeError("secret") from error
    except RuntimeError as error:
        report = crash_report.write_report(tmp_path / "logs", error).read_text("utf-8")
    assert "RuntimeError" in report
    assert "KeyError" in report


def test_errors_that_lead_to_each_other_are_reported_once(tmp_path: Path) -> None:
    part = KeyError("secret")
    group = ExceptionGroup("secret", [part, ValueError("secret")])
    part.__context__ = group  # as when a task's error is handled and its group raised again
    report = crash_report.write_report(tmp_path / "logs", group).read_text("utf-8")
    assert [report.count(name) for name in ("ExceptionGroup", "KeyError", "ValueError")] == [1] * 3


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", themes.names())
def test_text_can_be_read(name: str) -> None:
    theme = themes.theme_named(name)
    colours = [
        theme.foreground,
        theme.primary,
        theme.secondary or theme.primary,
        theme.accent,
        theme.warning,
    ]
    colours += [theme.error, theme.success, theme.variables["muted"]]
    for ground in (theme.background, theme.surface, theme.panel):
        for colour in colours:
            assert colour is not None
            assert ground is not None
            assert _contrast(colour, ground) >= 4.5, (colour, ground)
    grounds = (theme.background or "", theme.surface or "", theme.panel or "")
    shown = [min(_contrast(one, ground) for ground in grounds) for one in map(str, colours)]
    row = f"| {name} | {shown[0]:.1f} | {shown[-1]:.1f} | {min(shown):.1f} |"
    assert row in DOCUMENT.read_text("utf-8").splitlines()


async def test_no_color_is_honoured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("NO_COLOR", "1")

    def script(request: Request) -> Iterable[Chunk]:
        yield Text("# One\n\n`two`\n\n```python\nx = 'three'\n```\n")

    async with open_app(tmp_path, script) as session:
        await session.ask("colours")
        assert os.environ["NO_COLOR"] == "1", "an editor must see it too"
        for strip in session.app.screen._compositor.render_strips():
            for style in (segment.style for segment in strip if segment.style):
                for colour in (style.color, style.bgcolor):
                    if colour is not None and colour.triplet is not None:
                        assert len(set(colour.triplet)) == 1, style


async def test_a_prompt_of_no_width_is_drawn_without_a_fault(tmp_path: Path) -> None:
    """So it is for a moment where a window beside a panel gets narrow."""
    async with open_app(tmp_path) as session:
        session.chat.composer.prompt.styles.width = 0
        await session.settled()
        session.chat.composer.prompt.render_line(0)
        session.chat.composer.prompt.styles.width = "1fr"
        await session.wait_for_text("Ask anything")
