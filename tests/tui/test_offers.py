"""What a user sees before something leaves this machine, and of what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from baton.core.errors import WorkerUnavailable
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope
from baton.core.messages import Card, Chunk, Finish, Request, RequestSent, Text, TurnStatus, Usage
from baton.core.money import NANO
from baton.core.permissions import PromptLimits
from baton.core.ports import CallOffer, Choice, Question
from baton.presentation.answers import destination_text
from baton.presentation.words import call_price_text
from baton.tui.widgets.question_view import ChoiceView, OfferCard
from support.app_session import SORRY, AppSession, open_app, remote_script, sorry, until

Script = Iterable[Chunk | BaseException | float]
CARD = "Ask gpt-5-mini?"


async def wait_for_offer(session: AppSession, text: str = "Write a poem about herons") -> None:
    """Send a prompt whose local answer won't do, and wait for the offer."""
    await session.send(text)
    await session.wait_until(lambda: CARD in session.screen_text())


async def charged_nanos(session: AppSession) -> int:
    standing = await session.services.orchestra.standing()
    return sum(room.used for room in standing.rooms if room.scope is Scope.DAY)


async def test_the_offer_shows_what_would_leave_and_what_it_could_cost(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        seen = session.screen_text()
        assert "about $0.002, at most $0.009 · $2.00 left today" in seen
        assert "Why: The local worker would not or could not answer." in seen
        assert "Leaves this machine for openai (worker gpt):" in seen
        assert "You: Write a poem about herons" in seen
        assert f"Local answer so far: {SORRY}" in seen
        for choice in ("Keep the local answer", "Send once", "Send in this conversation"):
            assert choice in seen
        assert "Edit first" in seen
        assert "waiting for your choice" in seen
        assert session.chat.composer.prompt.has_focus, "the card takes no focus"


def test_the_offer_names_the_address_and_the_proxy() -> None:
    card = Card("gpt", "cloud", "gpt", provider="openai", address="127.0.0.1:9 through proxy:3128")
    seen = destination_text(CallOffer(card, "", "", "", 1, 1, "day"))
    assert seen == "Leaves this machine for 127.0.0.1:9 through proxy:3128 (openai):"


OWN = "Instructions: Plan well.\n\nYou: An example.\n\nBaton: Its plan."


async def test_baton_s_own_instructions_are_folded_until_they_are_opened(tmp_path: Path) -> None:
    card = Card("gpt", "cloud", "gpt-5-mini")
    offer = CallOffer(card, "Why.", "You: My words.", "", 9, 90, "day", instructions=OWN)
    question = Question(CARD, (Choice("keep", "Keep"), Choice("once", "Send")), "keep", offer)
    async with open_app(tmp_path, size=(80, 40)) as session:
        session.chat.run_worker(session.chat.questions.ask(question))
        folded = "With Baton's own instructions, 5 lines. i shows them."
        await session.wait_for_text("You: My words.", folded)
        assert "Plan well." not in session.screen_text()
        await session.press("tab", "i")
        await session.wait_for_text("You: My words.", "Plan well.", "Baton: Its plan.")
        lines = session.screen_text().splitlines()
        row = next(y for y, line in enumerate(lines) if "i folds them." in line)
        await session.pilot.click(offset=(20, row))
        await session.wait_for_text(folded)
        assert "Plan well." not in session.screen_text()
        assert session.chat.question, "nothing was chosen by that"


def test_no_more_is_expected_than_it_can_cost() -> None:
    offer = CallOffer(Card("gpt", "cloud", "gpt"), "", "", "", 2_000_000, None, "")
    assert call_price_text(offer) == "at most $0.002"
    assert call_price_text(replace(offer, expected=900_000)) == "about $0.0009, at most $0.002"
    assert call_price_text(replace(offer, expected=NANO)) == "about $0.002, at most $0.002"
    assert call_price_text(replace(offer, most=0)) == "costs nothing"


async def test_typed_ahead_text_and_enter_never_spend(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await session.send("hello")
        for _ in range(5):
            await session.press("y", "space", "enter", "space", "enter")
            await session.settled()
        await session.wait_until(lambda: CARD in session.screen_text())
        await session.press("s", "enter", "enter", "tab", "enter")  # Tab and Enter: keep
        await session.wait_until(
            lambda: "as you decided" in " ".join(session.chat.transcript.views[1].summary.notes)
        )
        await session.press("enter", "enter")
        assert session.asked == []
        assert await charged_nanos(session) == 0


@pytest.mark.sampled
@pytest.mark.parametrize("keys", [("escape",), ("tab", "enter")], ids="-".join)
async def test_a_declined_offer_is_one_quiet_line(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        await session.press(*keys)
        await session.wait_for_answer()
        assert CARD not in session.screen_text()
        assert "gpt-5-mini was not asked, as you decided; it could have" in session.screen_text()
        assert SORRY in session.screen_text()
        assert session.chat.transcript.turns[-1].status is TurnStatus.DONE
        assert await charged_nanos(session) == 0


async def test_what_is_sent_replaces_the_draft_with_name_and_price(tmp_path: Path) -> None:
    word, rest = asyncio.Event(), asyncio.Event()

    def slowly(request: Request) -> Script:
        yield RequestSent("api.openai.com", 1834)
        yield from until(word.is_set)
        yield Text("Herons ")
        yield from until(rest.is_set)
        yield Text("wade.")
        yield Usage(400, 800, Finish.STOP)

    async with open_app(tmp_path, sorry, cloud=slowly) as session:
        await wait_for_offer(session)
        await session.press("tab", "right", "enter")
        await session.wait_until(
            lambda: "the local draft; gpt-5-mini was asked" in session.screen_text()
        )
        assert SORRY in session.screen_text(), "the draft stays until the new answer has a word"
        word.set()
        await session.wait_until(lambda: "Herons" in session.screen_text())
        assert SORRY not in session.screen_text()
        rest.set()
        await session.wait_for_answer()
        await session.wait_for_text("$0.002 of $2.00")
        seen = session.screen_text()
        assert "Herons wade." in seen
        assert "Baton · 2 steps · 1 local, 1 cloud" in seen
        assert "gpt-5-mini · $0.002" in seen
        assert "$0.002 of $2.00" in seen.splitlines()[0]
        assert session.chat.transcript.turns[-1].worker == "gpt"
        assert session.chat.composer.prompt.has_focus
        answer = session.chat.transcript.views[-1]
        assert answer.has_class("-remote"), "the bar at the left edge"


async def test_the_same_head_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        await session.press("tab", "right", "enter")
        await session.wait_for_answer()
        head = next(line for line in session.screen_text().splitlines() if "2 steps" in line)
        conversation = session.chat.context.chat.id
        await session.press("ctrl+n")
        await session.wait_until(lambda: "2 steps" not in session.screen_text())
        await session.chat.conversation.open(conversation)
        await session.wait_until(lambda: head in session.screen_text())


async def test_a_click_chooses(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        once = session.app.screen.query(ChoiceView)[1]
        assert once.choice.id == "once"
        await session.pilot.click(once)
        await session.wait_until(lambda: "From far away." in session.screen_text())
        await session.wait_for_answer()
        assert await charged_nanos(session) > 0
        assert len(session.asked) == 1


async def test_the_draft_stays_as_the_version_before_the_answer(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script(), size=(120, 40)) as session:
        await wait_for_offer(session)
        await session.press("tab", "right", "enter")
        await session.wait_for_answer()
        await session.wait_for_text("From far away.", "2 of 2")
        await session.press("escape", "[")
        await session.wait_for_text(SORRY, "1 of 2")
        assert "From far away." not in session.screen_text()
        await session.press("]")
        await session.wait_for_text("From far away.", "2 of 2")


async def test_send_in_this_conversation_asks_no_more_there(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        await session.press("tab", "right", "right", "enter")
        await session.wait_for_answer()
        await session.ask("another")
        assert CARD not in session.screen_text()
        assert session.screen_text().count("From far away.") == 2
        await session.press("ctrl+n")
        await session.wait_until(lambda: not session.chat.transcript.turns)
        await wait_for_offer(session)


async def test_all_of_a_long_text_can_be_read_before_it_leaves(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session, " ".join(f"item{number}" for number in range(600)))
        card = session.app.screen.query_one(OfferCard)
        assert card.region.height < session.chat.transcript.size.height, "the card fits"
        await session.press("tab")
        seen = session.screen_text()
        for _ in range(100):
            if "item599" in session.screen_text():
                break
            await session.press("pagedown")
            seen += session.screen_text()
        for number in range(600):
            assert f"item{number}" in seen


async def test_cards_wait_for_each_other(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        questions = [
            Question(f"Question {n}?", (Choice("no", f"No {n}"), Choice("yes", f"Yes {n}")), "no")
            for n in range(3)
        ]
        asked = [
            asyncio.create_task(session.chat.questions.ask(question)) for question in questions
        ]
        for n in range(3):
            await session.wait_until(lambda n=n: f"Question {n}?" in session.screen_text())  # type: ignore[misc]
            assert f"Question {n + 1}?" not in session.screen_text()
            await session.press("tab", *(["right"] if n == 1 else []), "enter")
        assert await asyncio.gather(*asked) == ["no", "yes", "no"]


async def test_leaving_answers_all_cards_safely(tmp_path: Path) -> None:
    async with open_app(tmp_path) as session:
        question = Question("Spend?", (Choice("no", "No"), Choice("yes", "Yes")), "no")
        asked = [asyncio.create_task(session.chat.questions.ask(question)) for _ in range(3)]
        await session.wait_until(lambda: "Spend?" in session.screen_text())
        await session.press("ctrl+q")
        assert await asyncio.gather(*asked) == ["no"] * 3


async def test_edit_first_gives_the_prompt_back_and_sends_it_there(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session, "first words")
        session.chat.composer.prompt.insert("half a thought")
        await session.press("tab", "left", "enter")
        await session.wait_for_answer()
        assert session.chat.composer.text == "first words"
        assert "Enter sends this to gpt-5-mini as a new version." in session.screen_text()
        assert session.chat.composer.prompt.has_focus
        session.chat.composer.prompt.insert(" and more")
        await session.press("enter")
        await session.wait_until(lambda: "You: first words and more" in session.screen_text())
        assert "Don't send" in session.screen_text()
        assert "Local answer so far" not in session.screen_text()
        assert await charged_nanos(session) == 0, "the edited prompt is shown first as well"
        await session.press("tab", "right", "enter")
        await session.wait_until(lambda: "From far away." in session.screen_text())
        await session.wait_for_answer()
        assert session.chat.composer.text == "half a thought"
        assert session.chat.transcript.turns[0].text == "first words and more"


async def test_a_worker_that_fails_leaves_the_local_answer(tmp_path: Path) -> None:
    def broken(request: Request) -> Script:
        yield RequestSent("api.openai.com", 900)
        raise WorkerUnavailable("OpenAI closed the connection.", "Try again.")

    async with open_app(tmp_path, sorry, cloud=broken) as session:
        await wait_for_offer(session)
        await session.press("tab", "right", "enter")
        await session.wait_until(lambda: CARD not in session.screen_text())
        await session.wait_until(
            lambda: CARD in session.screen_text()
        )  # what it may cost again is asked again
        await session.press("escape")
        await session.wait_for_answer()
        seen = session.screen_text()
        assert SORRY in seen
        flat = " ".join(seen.split())
        assert "gpt-5-mini was not asked, as you decided" in flat
        assert "unconfirmed" in flat
        turn = session.chat.transcript.turns[-1]
        assert (turn.status, turn.worker, turn.text) == (TurnStatus.DONE, "small", SORRY)
        assert not session.chat.transcript.views[-1].has_class("-remote")
        await session.wait_until(lambda: "unconfirmed" in session.screen_text().splitlines()[0])


async def test_a_ceiling_that_stops_an_offer_is_shown_under_the_answer(tmp_path: Path) -> None:
    ceilings = {Scope.DAY: NANO // 10_000}
    async with open_app(tmp_path, sorry, cloud=remote_script(), ceilings=ceilings) as session:
        await session.ask("hello")
        assert CARD not in session.screen_text()
        flat = " ".join(session.screen_text().split())
        assert "gpt-5-mini was not asked: the ceiling of $0.0001 for today" in flat
        assert "it could have cost $0.005. /budget changes that." in flat
        assert session.chat.transcript.turns[-1].status is TurnStatus.DONE
        assert session.asked == []


async def test_the_policy_never_is_shown_and_asks_nothing(tmp_path: Path) -> None:
    terms = {"policy": Policy.NEVER}
    async with open_app(tmp_path, sorry, cloud=remote_script(), terms=terms) as session:
        await session.ask("hello")
        assert "gpt-5-mini was not asked: the policy is never to spend" in session.screen_text()


async def test_a_chosen_cloud_worker_asks_before_anything_else(tmp_path: Path) -> None:
    async with open_app(tmp_path, cloud=remote_script(), worker="gpt") as session:
        await wait_for_offer(session, "hello")
        assert "cloud worker" in session.screen_text().splitlines()[0]
        assert "Don't send" in session.screen_text()
        assert "Why: You asked for it." in session.screen_text()
        await session.press("escape")
        await session.wait_for_answer()
        assert (
            "gpt-5-mini was not asked, as you decided; it could have cost" in session.screen_text()
        )
        assert "Stopped here." not in session.screen_text()
        await wait_for_offer(session, "hello again")
        await session.press("tab", "right", "enter")
        await session.wait_for_answer()
        assert "From far away." in session.screen_text()
        assert "Baton · cloud" in session.screen_text()


async def test_s_asks_the_stronger_worker_for_another_version(tmp_path: Path) -> None:
    async with open_app(tmp_path, cloud=remote_script()) as session:
        await session.ask("hello")
        await session.press("escape", "s")
        await session.wait_until(lambda: CARD in session.screen_text())
        await session.press("escape")
        await session.wait_for_answer()
        await session.wait_until(lambda: "hello" in session.chat.transcript.turns[-1].text)
        assert "was not asked, as you decided" in " ".join(session.screen_text().split())
        session.chat.transcript.focus()
        await session.press("s")
        await session.wait_until(lambda: CARD in session.screen_text())
        session.chat.composer.prompt.focus()
        await session.press("tab", "right", "enter")
        await session.wait_until(lambda: "From far away." in session.screen_text())
        await session.wait_for_answer()
        await session.wait_until(lambda: "3 of 3" in session.screen_text())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({}, "There is no stronger worker here."),
        ({"cloud": remote_script(), "ceilings": {}}, "no ceiling is set. /budget day 2"),
        ({"cloud": remote_script(), "terms": {"offline": True}}, "Baton is offline"),
        ({"cloud": remote_script(), "terms": {"mode": "local"}}, "The mode is local"),
        ({"cloud": remote_script(), "limits": PromptLimits(Label.LOCAL)}, "opened with --private"),
    ],
    ids=["none", "off", "offline", "mode", "private"],
)
async def test_s_says_in_a_sentence_why_no_worker_can_be_asked(
    tmp_path: Path, more: dict[str, object], sentence: str
) -> None:
    async with open_app(tmp_path, **more) as session:  # type: ignore[arg-type]
        await session.ask("hello")
        await session.press("escape", "s")
        await session.wait_until(lambda: sentence in " ".join(session.screen_text().split()))
        assert len(session.chat.transcript.turns) == 2


async def test_going_offline_or_private_takes_an_open_offer_back(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        for command in ("/offline on", "/private"):
            await wait_for_offer(session)
            await session.send(command)
            await session.wait_for_answer()
            assert CARD not in session.screen_text()
            assert await charged_nanos(session) == 0
            await session.ask("another")
            assert CARD not in session.screen_text()
            await session.send("/offline off")
            await session.press("ctrl+n")
            await session.wait_until(lambda: not session.chat.transcript.turns)


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["/private", "/offline on", "/budget policy never"])
async def test_what_is_being_written_cannot_leave_after_the_user_forbade_it(
    tmp_path: Path, command: str
) -> None:
    def slow(request: Request) -> Script:
        yield Text("I can't ")
        yield 0.5
        yield Text("do that.")

    terms = {"policy": Policy.BUDGET}
    async with open_app(tmp_path, slow, cloud=remote_script(), terms=terms) as session:
        await session.send("my secret")
        await session.wait_until(
            lambda: session.chat.queue.is_busy and "I can't" in session.screen_text()
        )
        await session.send(command)
        await session.wait_for_answer()
        assert await session.services.ledger.charges() == []


async def test_who_comes_back_while_an_answer_replaces_a_draft_sees_it_once(tmp_path: Path) -> None:
    shown, looked = asyncio.Event(), asyncio.Event()

    def long(request: Request) -> Script:
        yield RequestSent("api.openai.com", 1834)
        for number in range(60):
            yield Text(f"word{number} ")
            if number == 9:
                yield from until(shown.is_set)
            if number == 29:
                yield from until(looked.is_set)
        yield Usage(400, 60, Finish.STOP)

    terms = {"policy": Policy.BUDGET}
    async with open_app(tmp_path, sorry, cloud=long, terms=terms, size=(80, 40)) as session:
        await session.send("hello")
        await session.wait_until(lambda: "word3" in session.screen_text())
        conversation = session.chat.context.chat.id
        await session.press("ctrl+n")
        await session.wait_until(lambda: "word3" not in session.screen_text())
        await session.chat.conversation.open(conversation)
        shown.set()
        await session.wait_until(lambda: "word20" in session.screen_text())
        assert session.chat.queue.is_busy
        assert session.screen_text().count("word3 ") == 1
        assert SORRY not in session.screen_text()
        looked.set()
        await session.wait_for_answer()
        assert session.screen_text().count("word3 ") == 1
        assert "word59" in session.screen_text()


async def test_an_offer_for_another_conversation_says_for_which(tmp_path: Path) -> None:
    def slowly(request: Request) -> Script:
        yield 0.6
        yield from sorry(request)

    async with open_app(tmp_path, slowly, cloud=remote_script()) as session:
        await session.send("About herons")
        await session.wait_until(lambda: "About herons" in session.screen_text().splitlines()[0])
        await session.press("ctrl+n")
        await session.wait_until(
            lambda: "\u201cAbout herons\u201d: Ask gpt-5-mini?" in session.screen_text()
        )
        await session.press("tab", "left", "enter")  # edit first
        await session.wait_until(lambda: session.chat.composer.text == "About herons")
        assert "About herons" in session.screen_text().splitlines()[0], "it is opened to be edited"


SIZES = [(80, 24), (100, 30), (140, 40)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keys", [("ctrl+l",), ("f1",), ("e",), ("$",), ("ctrl+s",), ("ctrl+p",)])
async def test_a_waiting_question_is_seen_and_answered_from_every_screen(
    tmp_path: Path, size: tuple[int, int], keys: tuple[str, ...]
) -> None:
    asking = asyncio.Event()

    def slow(request: Request) -> Script:
        yield from until(asking.is_set)
        yield Text(SORRY)

    async with open_app(tmp_path, slow, cloud=remote_script(), size=size) as session:
        await session.send("hello")
        await session.wait_until(
            lambda: session.chat.queue.is_busy and session.chat.transcript.views
        )
        match keys[0]:
            case "e":
                await session.chat.run_action("egress")
            case "$":
                await session.chat.run_action("budget")
            case key:
                await session.press(key)
        menu = session.chat.context.menu
        await session.wait_until(lambda: session.app.screen is not session.chat or menu.is_open)
        asking.set()
        await session.wait_for_text("Ask gpt-5-mini? Ctrl+G answers.")
        assert await charged_nanos(session) == 0
        if keys[0] != "ctrl+p":
            assert "Ctrl+G answer" in session.screen_text().splitlines()[-1]
        await session.press("z")  # typed for that screen: chooses nothing
        assert session.chat.question
        await session.press("ctrl+g")
        assert session.app.screen is session.chat
        assert CARD in session.screen_text()
        await session.press("right", "enter")
        await session.wait_for_answer()
        assert await charged_nanos(session) > 0


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [120, 140, 200])
async def test_the_workflow_beside_the_conversation_covers_no_question(
    tmp_path: Path, columns: int
) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script(), size=(columns, 40)) as session:
        await wait_for_offer(session)
        await session.chat.run_action("why")
        await session.wait_for_text("Workflow")
        await session.wait_for_text(
            "Leaves this machine for openai (worker gpt):", "Why: The local worker would not"
        )
        choices = ("Keep the local answer", "Send once", "Send in this conversation", "Edit first")
        await session.wait_for_text(*choices)
        await session.pilot.resize_terminal(100, 40)
        await session.wait_until(lambda: session.screen_text().count("Edit first") == 1)
        await session.press("escape")
        card = session.app.screen.query_one(OfferCard)
        await session.wait_until(lambda: card.region.width > 90)


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_a_question_is_put_and_answered_in_the_workflow(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    asking = asyncio.Event()

    def slow(request: Request) -> Iterable[Chunk | float]:
        while not asking.is_set():
            yield 0.02
        yield Text(SORRY)

    async with open_app(tmp_path, slow, cloud=remote_script(), size=size) as session:
        await session.send("hello")
        await session.wait_until(lambda: session.chat.transcript.views)
        await session.press("tab", "w")
        await session.wait_for_text("[Steps]")
        workflow = session.app.screen
        asking.set()
        await session.wait_until(lambda: workflow.query(OfferCard))
        await session.wait_for_text("asks you first", "Keep the local answer", "Send once")
        await session.press("right", "left", "j", "z")  # typed for the workflow: chooses nothing
        assert session.chat.question
        assert await charged_nanos(session) == 0
        await session.press("tab", "right", "enter")
        await session.wait_for_answer()
        assert session.app.screen is workflow
        assert not workflow.query(OfferCard)
        assert await charged_nanos(session) > 0


async def test_a_question_in_the_workflow_is_left_with_its_safe_choice(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        await session.chat.run_action("why")
        await session.wait_until(lambda: session.app.screen.query(OfferCard))
        workflow = session.app.screen
        await session.press("tab", "escape")
        await session.wait_for_answer()
        assert await charged_nanos(session) == 0
        assert session.app.screen is workflow, "Esc left the question only"
        await session.press("escape")
        assert session.app.screen is session.chat


async def test_a_screen_opened_over_a_question_shows_it(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        await session.press("f1")
        await session.wait_for_text("Ask gpt-5-mini? Ctrl+G answers.")
        await session.press("ctrl+g", "enter", "enter")
        await session.wait_for_answer()
        assert await charged_nanos(session) == 0, "the first choice is to keep it"


async def test_the_way_to_the_card_is_named_wherever_the_focus_is(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        session.chat.transcript.focus()
        await session.wait_until(lambda: "y copy" in session.screen_text().splitlines()[-1])
        assert "Tab choose" in session.screen_text().splitlines()[-1]


async def test_leaving_with_a_waiting_question_sends_nothing(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        await session.chat.close()
        assert await charged_nanos(session) == 0
        assert session.chat.question == ""


async def test_a_double_enter_answers_one_question_only(tmp_path: Path) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await wait_for_offer(session)
        second = asyncio.create_task(
            session.chat.questions.ask(
                Question("Really?", (Choice("no", "No"), Choice("yes", "Yes")), "no")
            )
        )
        await session.press("tab", "enter", "enter")
        await session.wait_until(lambda: session.chat.question == "Really?")
        assert not second.done()
        await session.press("escape")
        assert await second == "no"
        assert await charged_nanos(session) == 0


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("keys", "is_other"),
    [
        ("ctrl+l enter", False),
        ("ctrl+l escape", False),
        ("ctrl+s enter", False),  # this conversation once more
        ("ctrl+s down enter", True),
        ("ctrl+n", True),
        ("ctrl+p escape", False),
        ("f1 escape", False),
    ],
)
async def test_a_question_survives_every_other_screen(
    tmp_path: Path, keys: str, is_other: bool
) -> None:
    async with open_app(tmp_path, sorry, cloud=remote_script()) as session:
        await session.send("earlier")
        await session.wait_for_text(CARD)
        await session.press("escape")
        await session.wait_for_answer()
        await session.press("ctrl+n")
        await session.wait_until(lambda: not session.chat.transcript.turns)
        await wait_for_offer(session)
        await session.press(*keys.split())
        await session.wait_until(lambda: session.app.screen is session.chat)
        whose = "In \u201cWrite a poem about herons\u201d: " if is_other else ""
        await session.wait_for_text(f"{whose}{CARD} about")
        assert session.chat.question == f"{whose}{CARD}"
        await session.send("/budget policy budget")
        await session.wait_for_text("When to spend from now on")
        assert CARD in session.screen_text(), "what is said meanwhile stands above it"
        await session.press("ctrl+g", "right", "enter")
        await session.wait_for_answer()
        assert await charged_nanos(session) > 0
