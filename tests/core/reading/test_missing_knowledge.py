"""What no worker here can know is recognised in six languages; what only sounds like it is not."""

from __future__ import annotations

import pytest

from baton.core.labels import Label
from baton.core.messages import Attachment, Role, Turn, TurnStatus
from baton.core.plan_types import Material
from baton.core.reading.missing_knowledge import Lack, missing_knowledge

UNKNOWABLE = (
    "What's the weather in Lisbon today?",
    "Summarise https://example.org/",
    "Who is the president right now?",
    "Who is the president of France?",
    "What is the bitcoin price?",
    "How many euros is 100 dollars in euros?",
    "Any news today?",
    "Who won the match last night?",
    "When does the next train to Berlin leave?",
    "Is the Louvre open today?",
    "Wie ist das Wetter in Berlin?",
    "Wer ist der aktuelle Bundeskanzler?",
    "Quel temps fait-il à Paris ?",
    "¿Qué tiempo hace en Madrid?",
    "Che tempo fa a Roma?",
    "What is my IP address?",
    "How much free disk space do I have?",
    "What's my name?",
    "Set a timer for 10 minutes",
    "Remind me to call mum",
    "Read the file notes.txt",
    "What files are in my Downloads folder?",
    "Send an email to Bob",
    "What are today's headlines?",
    "What's the latest version of Python?",
    "Is it raining outside?",
    "Who is the current CEO of Twitter?",
    "What is the exchange rate of the dollar?",
    "When is my next meeting?",
    "Will it rain tomorrow?",
    "What's in the news?",
    "stock price of Apple",
    "Who will win the election next year?",
    "https://example.com/article",
    "Turn on the lights in the kitchen",
    "What is on my calendar today?",
    "Wann fährt der nächste Zug nach Köln?",
    "Was kostet Bitcoin gerade?",
    "Play some jazz",
    "How is the traffic on the A1?",
)

KNOWABLE = (
    "What is the capital of France?",
    "Write a poem about the weather",
    "Who wrote Pride and Prejudice?",
    "Write a Python script that lists files in my folder",
    "What is weather?",
    "Explain exchange rates",
    "Make an HTML link to https://example.org",
    "Who was the first president of the USA?",
    'Translate "What\'s the weather?" to German',
    "Write an email to my boss asking for a day off",
    "How do I delete a folder in Linux?",
    "What is the time complexity of quicksort?",
    "Plan a week of dinners",
    "What are common words for weather?",
    "How does bitcoin work?",
    "Summarise this text: The weather was fine and the king was happy.",
    "Define inflation",
    "Is it cold on Mars?",
    "What does RAM do in a computer?",
    "Write a short story about a president",
    "How old was Mozart when he died?",
    "What does my name mean if it is Peter?",
    'Quel temps utiliser après "si" ?',
    "Explain what a stock is",
    "How can I make my laptop faster?",
    "Write a reminder note for tea time",
    "What is Python?",
    "Tell me about the news industry",
    "hello",
    "Which king built Versailles?",
    "Give me a recipe for tonight",
    "What should I cook today?",
    'Wie schreibt man "Wetter"?',
    "Who is the author of Hamlet?",
    "Call me Peter from now on",
    "How do I set an alarm on an iPhone?",
    "Book recommendations for a rainy day",
    "Play on words: explain",
    "The next train leaves at 10:15 and takes 2 hours. When does it arrive?",
)


def material(text: str, *files: Attachment, before: tuple[str, ...] = ()) -> Material:
    texts = [*before, text]
    turns = [
        Turn(str(n), "c", None, Role.USER, said, TurnStatus.DONE, Label.CLOUD, 0.0)
        for n, said in enumerate(texts[:-1])
    ]
    last = Turn("p", "c", None, Role.USER, text, TurnStatus.DONE, Label.CLOUD, 0.0, files=files)
    return Material((*turns, last))


@pytest.mark.parametrize("text", UNKNOWABLE)
def test_a_question_that_no_worker_can_answer_is_recognised(text: str) -> None:
    assert missing_knowledge(material(text)) is not None


@pytest.mark.parametrize("text", KNOWABLE)
def test_a_question_that_only_sounds_like_one_is_not(text: str) -> None:
    assert missing_knowledge(material(text)) is None


def test_the_lack_says_what_is_missing() -> None:
    said = {
        "What's the weather in Lisbon today?": Lack.NOW,
        "Summarise https://example.org/": Lack.LINK,
        "What is my IP address?": Lack.MACHINE,
        "What's my name?": Lack.PERSON,
        "Set a timer for 10 minutes": Lack.ACTION,
    }
    assert {text: missing_knowledge(material(text)) for text in said} == said


def test_an_attached_or_pasted_text_is_what_the_prompt_is_about() -> None:
    page = Attachment("page.html", "It rains in Lisbon.", 19)
    assert missing_knowledge(material("What's the weather in Lisbon today?", page)) is None
    pasted = "What's the weather like, by this report? " + "It rained all day in Lisbon. " * 20
    assert missing_knowledge(material(pasted)) is None


def test_what_may_have_been_said_before_is_not_missing() -> None:
    assert missing_knowledge(material("What's my name?", before=("I'm Zora.", "Hello!"))) is None
