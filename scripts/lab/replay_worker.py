"""A worker that answers from what a real model once answered: real data, without a network.

Where it is replayed as a cloud worker, it is held for, sent and settled like any other; nothing
leaves this machine all the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator, Mapping

from recordings import RecordedAnswer, Recordings, recorded_tokens

from baton.core.errors import WorkerError
from baton.core.labels import Label
from baton.core.messages import Card, Chunk, Finish, Request, RequestSent, Role, Text, Usage
from baton.core.money import FREE, Price

REPLAY_PROVIDER = "replay"
"""Where a replayed request says it goes."""

_NO_SHORT_ANSWER = "No short answer was found in recording {}."
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
_BILLIONS = re.compile(r"(?<![\w.])(?:(\d+)x)?(\d+(?:\.\d+)?)b(?![a-z0-9])", re.IGNORECASE)


def recorded_card(model: str, price: Price | None = None) -> Card:
    """Return the card of a recorded model: a local one, or a remote one if it has a price."""
    is_remote = price is not None
    return Card(
        model,
        "cloud" if is_remote else "local",
        model,
        privacy=Label.CLOUD if is_remote else Label.LOCAL,
        context=32_768,
        parameters=_parameter_count(model),
        price=price or FREE,
        provider=REPLAY_PROVIDER if is_remote else "",
        model=model,
        remote=is_remote,
        slots=4,
    )


def _parameter_count(model: str) -> int:
    """Read a model's size from its name: "llama-3.1-8b-instruct"."""
    if (found := _BILLIONS.search(model.replace("-", " "))) is None:
        return 0
    return int(float(found[2]) * int(found[1] or 1) * 10**9)


def recorded_text(recorded: RecordedAnswer, name: str) -> str:
    """Return the text that stands for a recorded answer: the answer that was found in it.

    It is as long as the answer was, since the length is a signal too: blanks fill it up.
    """
    said = f"The answer is {recorded.answer}." if recorded.answer else _text_without_answer(name)
    return said.ljust(recorded.length)


def _text_without_answer(name: str) -> str:
    """Return a text without an answer: two of them must not look as if they agreed."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:12]
    return _NO_SHORT_ANSWER.format(digest.translate(_LETTERS))


class ReplayWorker:
    """Answers recorded questions as that model did; asked anything else, it has nothing to say.

    `price` None replays a worker of this machine's own.
    """

    def __init__(self, recordings: Recordings, model: str, price: Price | None = None) -> None:
        self.card = recorded_card(model, price)
        answers = recordings.answers[model]
        self._answers: Mapping[str, RecordedAnswer] = {
            question.prompt: answers[question.name] for question in recordings.questions
        }

    def warm(self) -> None:
        """Nothing takes long here."""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk]:
        """Give the recorded answer to the last message, cut where its cap would have cut it.

        Raises WorkerError for a text that is none of the questions.
        """
        asked = _asked_text(request)
        recorded, name = self._answers.get(asked), f"{self.card.id}: {asked}"
        if recorded is None:
            raise WorkerError(
                f"{self.card.id} is replayed, and has no recorded answer to this.",
                "Replay strategies that need no fresh text.",
            )
        if request.temperature is not None:
            raise WorkerError(
                f"{self.card.id} is replayed, and was recorded once: it can't say something else.",
                "Replay with another worker beside it.",
            )
        read = sum(recorded_tokens(message.text) for message in request.messages)
        if self.card.remote:
            yield RequestSent(
                REPLAY_PROVIDER, sum(len(m.text.encode("utf-8")) for m in request.messages)
            )
        cap = request.max_tokens
        if cap is not None and recorded.tokens > cap:
            # Its end is missing, and that is where a worked answer says its result.
            yield Text(_text_without_answer(name), cap)
            yield Usage(read, cap, Finish.LENGTH, context=self.card.context)
            return
        yield Text(recorded_text(recorded, name), recorded.tokens)
        yield Usage(read, recorded.tokens, Finish.STOP, context=self.card.context)

    async def aclose(self) -> None:
        """Nothing is held."""


def _asked_text(request: Request) -> str:
    last = request.messages[-1]
    return last.text if last.role is Role.USER else ""
