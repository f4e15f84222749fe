"""How often what was said privately is recognised when it comes back, and other chats by mistake.

    scripts/bench_recall             a table of bounds, and one of the ways in which chats come back

scripts/data/ordinary_chats.jsonl holds what 1,000 users say, written by a language model from a
description of ordinary traffic, without a look at the code. The answers are made: 20 to 300 letters
long, and the same where a chat was the same so far, as a model gives them at temperature 0. A drawn
half of the chats is said privately with one access token. Then the others are begun and continued
openly with a second one, request by request; and the private ones come back with a third one, in
several ways.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parent.parent

from baton.core import text_match  # noqa: E402
from baton.core.labels import Label, strictest  # noqa: E402
from baton.core.messages import Message, Prompt, Role, TurnStatus  # noqa: E402
from baton.core.ports import ConversationPosition  # noqa: E402
from baton.core.text_match import label_by_sayings, said_texts  # noqa: E402
from baton.history import Store  # noqa: E402

BOUNDS = (32, 48, 64, 96)
SEEDS = range(2)

WORDS = (ROOT / "README.md").read_text().split()

Chat = Sequence[Message]


def read_chats() -> list[Chat]:
    """Return the chats, the two sides in turn."""
    lines = (ROOT / "scripts" / "data" / "ordinary_chats.jsonl").read_text().splitlines()
    chats: list[Chat] = []
    for line in lines:
        chat: list[Message] = []
        for prompt in json.loads(line)["turns"]:
            chat.append(Message(Role.USER, prompt))
            chat.append(Message(Role.ASSISTANT, made_answer(chat)))
        chats.append(chat)
    return chats


def made_answer(chat: Chat) -> str:
    """Return the answer to a chat so far, which says something about its last prompt."""
    dice = Random("\n".join(one.text for one in chat))
    words = [*chat[-1].text.split()[:8], *(dice.choice(WORDS) for _ in range(dice.randint(3, 45)))]
    return " ".join(words).capitalize() + "."


def each(change: Callable[[str], str], role: Role | None = None) -> Callable[[Chat], Chat]:
    """Return what changes each text of a chat, or those of one side."""
    return lambda chat: [
        Message(one.role, change(one.text)) if role in (None, one.role) else one for one in chat
    ]


def transcript(chat: Chat) -> Chat:
    said = "\n".join(f"{one.role.value.title()}: {one.text}" for one in chat)
    return [Message(Role.USER, f"This was said before:\n{said}\nGo on with it.")]


WAYS: dict[str, Callable[[Chat], Chat]] = {
    "as it was": lambda chat: chat,
    "spaces and line ends changed": each(
        lambda text: f" {text.replace(chr(10), chr(13) + chr(10))} \n"
    ),
    "all in capitals": each(str.upper),
    "marks of emphasis and quotes changed": each(
        lambda text: text.replace("**", "").replace("'", "\u2019").replace('"', "\u201c")
    ),
    "a system text and other turns around it": lambda chat: [
        Message(Role.SYSTEM, "The time is 10:31."),
        Message(Role.USER, "Good morning, dear helper."),
        Message(Role.ASSISTANT, "Good morning."),
        *chat,
    ],
    "prompts wrapped by an agent": each(
        lambda text: f"<task>{text}</task>\n<environment_details>cwd: src</environment_details>",
        Role.USER,
    ),
    "answers cut to four fifths": each(lambda text: text[: len(text) * 4 // 5], Role.ASSISTANT),
    "as a transcript in one message": transcript,
    "the prompts alone": lambda chat: [one for one in chat if one.role is Role.USER],
    "the answers alone": lambda chat: [
        Message(Role.USER, "Improve this:"),
        *[one for one in chat if one.role is Role.ASSISTANT],
    ],
}


async def say(store: Store, chat: Chat, label: Label, client: str) -> None:
    """Record a chat as the endpoint does, request by request."""
    position = ConversationPosition()
    for prompt, answer in zip(chat[::2], chat[1::2], strict=True):
        begun = await store.begin(Prompt(prompt.text), position, label, client)
        await store.write(begun.answer, answer.text, TurnStatus.DONE)
        position = ConversationPosition(begun.conversation, begun.answer)


async def label_of(store: Store, said: Chat, client: str) -> Label:
    return label_by_sayings(await store.clients.sayings(said_texts(said)), client)


async def measure(bound: int, seed: int, chats: list[Chat], counts: Counter[str]) -> None:
    """Count misses and false alarms of one draw."""
    text_match.MIN_ALONE_CHARS = bound
    text_match.OPENING_CHARS = min(32, bound)
    drawn = Random(seed).sample(chats, len(chats))
    private, other = drawn[: len(drawn) // 2], drawn[len(drawn) // 2 :]
    store = Store(None)
    for chat in private:
        await say(store, chat, Label.LOCAL, "a")
    for name, way in WAYS.items():
        for chat in private:
            counts[f"miss {name}"] += await label_of(store, way(chat), "c") is Label.CLOUD
    for chat in other:
        counts["chats from elsewhere tightened"] += (
            await label_of(store, chat, "d") is not Label.CLOUD
        )
        position, labels = ConversationPosition(), [Label.CLOUD]
        for end in range(1, len(chat), 2):
            labels.append(await label_of(store, chat[:end], "b"))
            begun = await store.begin(Prompt(chat[end - 1].text), position, strictest(labels), "b")
            await store.write(begun.answer, chat[end].text, TurnStatus.DONE)
            position = ConversationPosition(begun.conversation, begun.answer)
        counts["open chats tightened"] += strictest(labels) is not Label.CLOUD
    counts["private chats"] += len(private)
    counts["open chats"] += len(other)
    await store.aclose()


async def main() -> None:
    """Print the tables."""
    chats = read_chats()
    by_bound = {}
    for bound in BOUNDS:
        counts = by_bound[bound] = Counter[str]()
        for seed in SEEDS:
            await measure(bound, seed, chats, counts)
    print("| letters and digits that suffice alone | " + " | ".join(map(str, BOUNDS)) + " |")
    print("|---" * (len(BOUNDS) + 1) + "|")
    for name in ("open chats tightened", "chats from elsewhere tightened"):
        shares = (by_bound[b][name] / by_bound[b]["open chats"] for b in BOUNDS)
        print(f"| {name} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")
    for name in WAYS:
        shares = (by_bound[b][f"miss {name}"] / by_bound[b]["private chats"] for b in BOUNDS)
        print(f"| missed: {name} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
