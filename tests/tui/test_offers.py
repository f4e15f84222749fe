"""What a person sees before something leaves this machine, and of what it cost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from baton.core.errors import WorkerUnavailable
from baton.core.labels import Label
from baton.core.ledger_types import Policy, Scope
from baton.core.messages import Card, Chunk, Finish, Request, RequestSent, Text, TurnStatus, Usage
from baton.core.money import NANO
from baton.core.ports import CallOffer, Choice, Question
from baton.core.run.policy import PromptLimits
from baton.presentation.answers import destination_text
from baton.tui.widgets.question_view import ChoiceView, OfferCard
from support.app_session import SORRY, Stage, remote_script, sorry, staged, until

Script = Iterable[Chunk | BaseException | float]
CARD = "Ask gpt-5-mini?"


async def offered(stage: Stage, text: str = "Write a poem about herons") -> None:
    """Send a prompt whose local answer won't do, and wait for the offer."""
    await stage.send(text)
    await stage.until(lambda: CARD in stage.see())


async def charged(stage: Stage) -> int:
    standing = await stage.services.orchestra.standing()
    return sum(room.used for room in standing.rooms if room.scope is Scope.DAY)


async def test_the_offer_shows_what_would_leave_and_what_it_could_cost(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage)
        seen = stage.see()
        assert "at most $0.009 · $2.00 left today" in seen
        assert "Why: The local worker would not or could not answer." in seen
        assert "Leaves this machine for openai:" in seen
        assert "You: Write a poem about herons" in seen
        assert f"Local answer so far: {SORRY}" in seen
        for choice in ("Keep the local answer", "Send once", "Send in this conversation"):
            assert choice in seen
        assert "Edit first" in seen
        assert "waiting for your choice" in seen
        assert stage.chat.composer.prompt.has_focus, "the card takes no focus"


def test_the_offer_names_the_address_and_the_proxy() -> None:
    card = Card("gpt", "cloud", "gpt", provider="openai", address="127.0.0.1:9 through proxy:3128")
    seen = destination_text(CallOffer(card, "", "", "", 1, 1, "day"))
    assert seen == "Leaves this machine for 127.0.0.1:9 through proxy:3128:"


async def test_typed_ahead_text_and_enter_never_spend(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await stage.send("hello")
        for _ in range(5):
            await stage.press("y", "space", "enter", "space", "enter")
            await stage.pilot.pause(0.05)
        await stage.until(lambda: CARD in stage.see())
        await stage.press("s", "enter", "enter", "tab", "enter")  # Tab and Enter: keep
        await stage.until(
            lambda: "you kept" in " ".join(stage.chat.transcript.views[1].summary.notes)
        )
        await stage.press("enter", "enter")
        assert stage.asked == []
        assert await charged(stage) == 0


@pytest.mark.sampled
@pytest.mark.parametrize("keys", [("escape",), ("tab", "enter")], ids="-".join)
async def test_a_declined_offer_is_one_quiet_line(tmp_path: Path, keys: tuple[str, ...]) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage)
        await stage.press(*keys)
        await stage.answered()
        assert CARD not in stage.see()
        assert "gpt-5-mini was not asked: you kept the local answer; it could have" in stage.see()
        assert SORRY in stage.see()
        assert stage.chat.transcript.turns[-1].status is TurnStatus.DONE
        assert await charged(stage) == 0


async def test_what_is_sent_replaces_the_draft_with_name_and_price(tmp_path: Path) -> None:
    word, rest = asyncio.Event(), asyncio.Event()

    def slowly(request: Request) -> Script:
        yield RequestSent("api.openai.com", 1834)
        yield from until(word.is_set)
        yield Text("Herons ")
        yield from until(rest.is_set)
        yield Text("wade.")
        yield Usage(400, 800, Finish.STOP)

    async with staged(tmp_path, sorry, cloud=slowly) as stage:
        await offered(stage)
        await stage.press("tab", "right", "enter")
        await stage.until(lambda: "the local draft; gpt-5-mini was asked" in stage.see())
        assert SORRY in stage.see(), "the draft stays until the new answer has a word"
        word.set()
        await stage.until(lambda: "Herons" in stage.see())
        assert SORRY not in stage.see()
        rest.set()
        await stage.answered()
        await stage.shows("$0.002 of $2.00")
        seen = stage.see()
        assert "Herons wade." in seen
        assert "Baton · 2 steps · 1 local, 1 cloud" in seen
        assert "gpt-5-mini · $0.002" in seen
        assert "$0.002 of $2.00" in seen.splitlines()[0]
        assert stage.chat.transcript.turns[-1].worker == "gpt"
        assert stage.chat.composer.prompt.has_focus
        answer = stage.chat.transcript.views[-1]
        assert answer.has_class("-remote"), "the bar at the left edge"


async def test_the_same_head_is_there_when_it_is_opened_again(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage)
        await stage.press("tab", "right", "enter")
        await stage.answered()
        head = next(line for line in stage.see().splitlines() if "2 steps" in line)
        conversation = stage.chat.context.chat.id
        await stage.press("ctrl+n")
        await stage.until(lambda: "2 steps" not in stage.see())
        await stage.chat.conversation.open(conversation)
        await stage.until(lambda: head in stage.see())


async def test_a_click_chooses(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage)
        once = stage.app.screen.query(ChoiceView)[1]
        assert once.choice.id == "once"
        await stage.pilot.click(once)
        await stage.until(lambda: "From far away." in stage.see())
        await stage.answered()
        assert await charged(stage) > 0
        assert len(stage.asked) == 1


async def test_send_in_this_conversation_asks_no_more_there(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage)
        await stage.press("tab", "right", "right", "enter")
        await stage.answered()
        await stage.ask("another")
        assert CARD not in stage.see()
        assert stage.see().count("From far away.") == 2
        await stage.press("ctrl+n")
        await stage.until(lambda: not stage.chat.transcript.turns)
        await offered(stage)


async def test_all_of_a_long_text_can_be_read_before_it_leaves(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage, " ".join(f"item{number}" for number in range(600)))
        card = stage.app.screen.query_one(OfferCard)
        assert card.region.height < stage.chat.transcript.size.height, "the card fits"
        await stage.press("tab")
        seen = stage.see()
        for _ in range(100):
            if "item599" in stage.see():
                break
            await stage.press("pagedown")
            seen += stage.see()
        for number in range(600):
            assert f"item{number}" in seen


async def test_cards_wait_for_each_other(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        questions = [
            Question(f"Question {n}?", (Choice("no", f"No {n}"), Choice("yes", f"Yes {n}")), "no")
            for n in range(3)
        ]
        asked = [asyncio.create_task(stage.chat.questions.ask(question)) for question in questions]
        for n in range(3):
            await stage.until(lambda n=n: f"Question {n}?" in stage.see())  # type: ignore[misc]
            assert f"Question {n + 1}?" not in stage.see()
            await stage.press("tab", *(["right"] if n == 1 else []), "enter")
        assert await asyncio.gather(*asked) == ["no", "yes", "no"]


async def test_leaving_answers_all_cards_safely(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        question = Question("Spend?", (Choice("no", "No"), Choice("yes", "Yes")), "no")
        asked = [asyncio.create_task(stage.chat.questions.ask(question)) for _ in range(3)]
        await stage.until(lambda: "Spend?" in stage.see())
        await stage.press("ctrl+q")
        assert await asyncio.gather(*asked) == ["no"] * 3


async def test_edit_first_gives_the_prompt_back_and_sends_it_there(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage, "first words")
        stage.chat.composer.prompt.insert("half a thought")
        await stage.press("tab", "left", "enter")
        await stage.answered()
        assert stage.chat.composer.text == "first words"
        assert "Enter sends this to gpt as a new version." in stage.see()
        assert stage.chat.composer.prompt.has_focus
        stage.chat.composer.prompt.insert(" and more")
        await stage.press("enter")
        await stage.until(lambda: "You: first words and more" in stage.see())
        assert "Don't send" in stage.see()
        assert "Local answer so far" not in stage.see()
        assert await charged(stage) == 0, "the edited prompt is shown first as well"
        await stage.press("tab", "right", "enter")
        await stage.until(lambda: "From far away." in stage.see())
        await stage.answered()
        assert stage.chat.composer.text == "half a thought"
        assert stage.chat.transcript.turns[0].text == "first words and more"


async def test_a_worker_that_fails_leaves_the_local_answer(tmp_path: Path) -> None:
    def broken(request: Request) -> Script:
        yield RequestSent("api.openai.com", 900)
        raise WorkerUnavailable("OpenAI closed the connection.", "Try again.")

    async with staged(tmp_path, sorry, cloud=broken) as stage:
        await offered(stage)
        await stage.press("tab", "right", "enter")
        await stage.until(lambda: CARD not in stage.see())
        await stage.until(lambda: CARD in stage.see())  # what it may cost again is asked again
        await stage.press("escape")
        await stage.answered()
        seen = stage.see()
        assert SORRY in seen
        flat = " ".join(seen.split())
        assert "gpt-5-mini was not asked: you kept the local answer" in flat
        assert "unconfirmed" in flat
        turn = stage.chat.transcript.turns[-1]
        assert (turn.status, turn.worker, turn.text) == (TurnStatus.DONE, "small", SORRY)
        assert not stage.chat.transcript.views[-1].has_class("-remote")
        await stage.until(lambda: "unconfirmed" in stage.see().splitlines()[0])


async def test_a_ceiling_that_stops_an_offer_is_told_under_the_answer(tmp_path: Path) -> None:
    ceilings = {Scope.DAY: NANO // 10_000}
    async with staged(tmp_path, sorry, cloud=remote_script(), ceilings=ceilings) as stage:
        await stage.ask("hello")
        assert CARD not in stage.see()
        flat = " ".join(stage.see().split())
        assert "gpt-5-mini was not asked: the ceiling of $0.0001 for today" in flat
        assert "it could have cost $0.005. /budget changes that." in flat
        assert stage.chat.transcript.turns[-1].status is TurnStatus.DONE
        assert stage.asked == []


async def test_the_policy_never_is_told_and_asks_nothing(tmp_path: Path) -> None:
    terms = {"policy": Policy.NEVER}
    async with staged(tmp_path, sorry, cloud=remote_script(), terms=terms) as stage:
        await stage.ask("hello")
        assert "gpt-5-mini was not asked: the policy is never to spend" in stage.see()


async def test_a_chosen_cloud_worker_asks_before_anything_else(tmp_path: Path) -> None:
    async with staged(tmp_path, cloud=remote_script(), worker="gpt") as stage:
        await offered(stage, "hello")
        assert "cloud worker" in stage.see().splitlines()[0]
        assert "Don't send" in stage.see()
        assert "Why: You asked for it." in stage.see()
        await stage.press("escape")
        await stage.answered()
        assert "gpt-5-mini was not asked: nothing was sent; it could have cost" in stage.see()
        assert "Stopped here." not in stage.see()
        await offered(stage, "hello again")
        await stage.press("tab", "right", "enter")
        await stage.answered()
        assert "From far away." in stage.see()
        assert "Baton · gpt · cloud" in stage.see()


async def test_s_asks_the_stronger_worker_for_another_version(tmp_path: Path) -> None:
    async with staged(tmp_path, cloud=remote_script()) as stage:
        await stage.ask("hello")
        await stage.press("escape", "s")
        await stage.until(lambda: CARD in stage.see())
        await stage.press("escape")
        await stage.answered()
        await stage.until(lambda: "hello" in stage.chat.transcript.turns[-1].text)
        assert "was not asked: nothing was sent" in " ".join(stage.see().split())
        stage.chat.transcript.focus()
        await stage.press("s")
        await stage.until(lambda: CARD in stage.see())
        stage.chat.composer.prompt.focus()
        await stage.press("tab", "right", "enter")
        await stage.until(lambda: "From far away." in stage.see())
        await stage.answered()
        await stage.until(lambda: "3 of 3" in stage.see())


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
    async with staged(tmp_path, **more) as stage:  # type: ignore[arg-type]
        await stage.ask("hello")
        await stage.press("escape", "s")
        await stage.until(lambda: sentence in " ".join(stage.see().split()))
        assert len(stage.chat.transcript.turns) == 2


async def test_going_offline_or_private_takes_an_open_offer_back(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        for command in ("/offline on", "/private"):
            await offered(stage)
            await stage.send(command)
            await stage.answered()
            assert CARD not in stage.see()
            assert await charged(stage) == 0
            await stage.ask("another")
            assert CARD not in stage.see()
            await stage.send("/offline off")
            await stage.press("ctrl+n")
            await stage.until(lambda: not stage.chat.transcript.turns)


@pytest.mark.sampled
@pytest.mark.parametrize("command", ["/private", "/offline on", "/budget policy never"])
async def test_what_is_being_written_cannot_leave_after_the_person_forbade_it(
    tmp_path: Path, command: str
) -> None:
    def slow(request: Request) -> Script:
        yield Text("I can't ")
        yield 0.5
        yield Text("do that.")

    terms = {"policy": Policy.BUDGET}
    async with staged(tmp_path, slow, cloud=remote_script(), terms=terms) as stage:
        await stage.send("my secret")
        await stage.until(lambda: stage.chat.queue.is_busy and "I can't" in stage.see())
        await stage.send(command)
        await stage.answered()
        assert await stage.services.ledger.charges() == []


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
    async with staged(tmp_path, sorry, cloud=long, terms=terms, size=(80, 40)) as stage:
        await stage.send("hello")
        await stage.until(lambda: "word3" in stage.see())
        conversation = stage.chat.context.chat.id
        await stage.press("ctrl+n")
        await stage.until(lambda: "word3" not in stage.see())
        await stage.chat.conversation.open(conversation)
        shown.set()
        await stage.until(lambda: "word20" in stage.see())
        assert stage.chat.queue.is_busy
        assert stage.see().count("word3 ") == 1
        assert SORRY not in stage.see()
        looked.set()
        await stage.answered()
        assert stage.see().count("word3 ") == 1
        assert "word59" in stage.see()


async def test_an_offer_for_another_conversation_says_for_which(tmp_path: Path) -> None:
    def slowly(request: Request) -> Script:
        yield 0.6
        yield from sorry(request)

    async with staged(tmp_path, slowly, cloud=remote_script()) as stage:
        await stage.send("About herons")
        await stage.until(lambda: "About herons" in stage.see().splitlines()[0])
        await stage.press("ctrl+n")
        await stage.until(lambda: "\u201cAbout herons\u201d: Ask gpt-5-mini?" in stage.see())
        await stage.press("tab", "left", "enter")  # edit first
        await stage.until(lambda: stage.chat.composer.text == "About herons")
        assert "About herons" in stage.see().splitlines()[0], "it is opened to be edited"


SIZES = [(80, 24), (100, 30), (140, 40)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "keys", [("w",), ("ctrl+l",), ("f1",), ("e",), ("$",), ("ctrl+s",), ("ctrl+p",)]
)
async def test_a_waiting_question_is_seen_and_answered_from_every_screen(
    tmp_path: Path, size: tuple[int, int], keys: tuple[str, ...]
) -> None:
    asking = asyncio.Event()

    def slow(request: Request) -> Script:
        yield from until(asking.is_set)
        yield Text(SORRY)

    async with staged(tmp_path, slow, cloud=remote_script(), size=size) as stage:
        await stage.send("hello")
        await stage.until(lambda: stage.chat.queue.is_busy and stage.chat.transcript.views)
        match keys[0]:
            case "w":
                await stage.press("tab", "w")
            case "e":
                await stage.chat.run_action("egress")
            case "$":
                await stage.chat.run_action("budget")
            case key:
                await stage.press(key)
        await stage.until(lambda: stage.app.screen is not stage.chat)
        asking.set()
        await stage.shows("Ask gpt-5-mini? Ctrl+G answers.")
        assert await charged(stage) == 0
        if keys[0] != "ctrl+p":
            assert "Ctrl+G answer" in stage.see().splitlines()[-1]
        await stage.press("z")  # typed for that screen: chooses nothing
        assert stage.chat.question
        await stage.press("ctrl+g")
        assert stage.app.screen is stage.chat
        assert CARD in stage.see()
        await stage.press("right", "enter")
        await stage.answered()
        assert await charged(stage) > 0


@pytest.mark.sampled
@pytest.mark.parametrize("columns", [120, 140, 200])
async def test_the_workflow_beside_the_conversation_covers_no_question(
    tmp_path: Path, columns: int
) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script(), size=(columns, 40)) as stage:
        await offered(stage)
        await stage.chat.run_action("why")
        await stage.shows("Why this way")
        await stage.shows("Leaves this machine for openai:", "Why: The local worker would not")
        choices = ("Keep the local answer", "Send once", "Send in this conversation", "Edit first")
        await stage.shows(*choices)
        await stage.pilot.resize_terminal(100, 40)
        await stage.until(lambda: CARD in stage.see() and "Edit first" not in stage.see())
        await stage.press("escape")
        card = stage.app.screen.query_one(OfferCard)
        await stage.until(lambda: card.region.width > 90)


async def test_a_screen_opened_over_a_question_shows_it(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage)
        await stage.press("f1")
        await stage.shows("Ask gpt-5-mini? Ctrl+G answers.")
        await stage.press("ctrl+g", "enter", "enter")
        await stage.answered()
        assert await charged(stage) == 0, "the first choice is to keep it"


async def test_the_way_to_the_card_is_named_wherever_the_focus_is(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage)
        stage.chat.transcript.focus()
        await stage.until(lambda: "y copy" in stage.see().splitlines()[-1])
        assert "Tab choose" in stage.see().splitlines()[-1]


async def test_leaving_with_a_waiting_question_sends_nothing(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage)
        await stage.chat.close()
        assert await charged(stage) == 0
        assert stage.chat.question == ""


async def test_a_double_enter_answers_one_question_only(tmp_path: Path) -> None:
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await offered(stage)
        second = asyncio.create_task(
            stage.chat.questions.ask(
                Question("Really?", (Choice("no", "No"), Choice("yes", "Yes")), "no")
            )
        )
        await stage.press("tab", "enter", "enter")
        await stage.until(lambda: stage.chat.question == "Really?")
        assert not second.done()
        await stage.press("escape")
        assert await second == "no"
        assert await charged(stage) == 0


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
    async with staged(tmp_path, sorry, cloud=remote_script()) as stage:
        await stage.send("earlier")
        await stage.shows(CARD)
        await stage.press("escape")
        await stage.answered()
        await stage.press("ctrl+n")
        await stage.until(lambda: not stage.chat.transcript.turns)
        await offered(stage)
        await stage.press(*keys.split())
        await stage.until(lambda: stage.app.screen is stage.chat)
        whose = "In \u201cWrite a poem about herons\u201d: " if is_other else ""
        await stage.shows(f"{whose}{CARD} at most")
        assert stage.chat.question == f"{whose}{CARD}"
        await stage.send("/budget policy budget")
        await stage.shows("When to spend from now on")
        assert CARD in stage.see(), "what is said meanwhile stands above it"
        await stage.press("ctrl+g", "right", "enter")
        await stage.answered()
        assert await charged(stage) > 0
