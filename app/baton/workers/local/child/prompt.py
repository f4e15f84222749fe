"""A request's messages on their way to the model: a template's text, tokens, and thoughts."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

from baton.core.frozen_dataclass import frozen_dataclass
from baton.ipc.parent_channel import Failure, ParentChannel
from baton.workers import reasoning_filter
from baton.workers.local.child.batch_plan import MIN_CONTEXT_TOKENS
from baton.workers.local.child.chat_template import (
    TemplateRefused,
    TemplateUnusable,
    compile_template,
    rendering_limits,
)
from baton.workers.local.messages import MAX_BYTES_PER_TOKEN
from baton.workers.reasoning_filter import ThoughtFilter

if TYPE_CHECKING:
    from baton.workers.local.child.chat_template import Messages
    from baton.workers.local.child.llama import Model
    from baton.workers.local.messages import AnswerPrompt

USEFUL_TOKENS = 256
"""Less room than this for an answer is none, and none for thoughts before it."""

PIECE_CHARS, MARK_CHARS = 4096, 256
"""In what pieces a text is looked through for control tokens, and how long one of these may be: in
a text of 1 MB that is full of them llama.cpp takes a minute to find all, while all others wait."""


@frozen_dataclass
class Prompt:
    """A prompt's tokens, and the filter for the thoughts that may follow.

    `cap` is how many tokens the answer may have, which ends before the first of `stop`;
    `mark_tokens` are those that thoughts are marked with and that have no text otherwise.
    """

    tokens: list[int]
    thoughts: ThoughtFilter
    cap: int
    mark_tokens: Collection[int] = ()
    stop: tuple[str, ...] = ()


class PromptReader:
    """Turns requests into prompts for a model with a context of `limit` tokens.

    `note` is what is wrong with the model's chat template, "" if nothing is. Raises Failure.
    """

    def __init__(self, parent: ParentChannel, model: Model, limit: int) -> None:
        self._parent = parent
        self._model = model
        self._limit = limit
        source, ends = model.template, (model.special_text("bos"), model.special_text("eos"))
        with self._limits(len(source or "")):
            self._template, self.note = compile_template(source, *ends)
        self._marks = reasoning_filter.known_marks(
            model.template or "", lambda text: len(self._special_tokens(text)) == 1
        )
        named = (t for mark in self._marks for text in mark[:2] for t in self._special_tokens(text))
        self._mark_tokens = {t for t in named if not model.piece(t)}

    def chat(self, request: AnswerPrompt) -> Prompt:
        """Return the prompt for a conversation."""
        messages = request.messages
        size = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        if size > self._limit * MAX_BYTES_PER_TOKEN:
            raise Failure("ContextTooLong", "", needed=size // 4, limit=self._limit)
        brief = request.max_tokens is not None and request.max_tokens < USEFUL_TOKENS
        is_formed = bool(request.grammar or request.schema)
        thinking = False if is_formed or brief else request.thinking
        thoughts = ThoughtFilter()

        def render(shown: Messages) -> str:
            nonlocal thoughts
            text = self._begun(shown, thinking, request.id)
            begun = reasoning_filter.open_marks(text, self._marks)
            thoughts = ThoughtFilter(self._marks, begun)
            return text

        tokens = encode(self._model, render, messages, self._limit)
        cap = self._cap(len(tokens), request)
        return Prompt(tokens, thoughts, cap, self._mark_tokens, request.stop)

    def count(self, request: AnswerPrompt) -> int:
        """Return how many tokens the prompt for a conversation has, however long that is."""

        def render(shown: Messages) -> str:
            return self._begun(shown, request.thinking, request.id)

        return len(encode(self._model, render, request.messages, self._limit))

    def plain(self, request: AnswerPrompt, form: str) -> Prompt:
        """Return the prompt for the last message in an adapter's own form."""
        text = form.replace("{prompt}", request.messages[-1]["content"])
        limit = min(self._limit, MIN_CONTEXT_TOKENS)
        if len(text.encode("utf-8", "replace")) > limit * MAX_BYTES_PER_TOKEN:
            raise Failure("ContextTooLong", "", needed=len(text) // 4, limit=limit)
        tokens = self._model.with_bos(self._model.tokenise(text, special=False))
        if len(tokens) + USEFUL_TOKENS > limit:
            raise Failure("ContextTooLong", "", needed=len(tokens) + USEFUL_TOKENS, limit=limit)
        cap = min(self._cap(len(tokens), request), limit - len(tokens))
        return Prompt(tokens, ThoughtFilter(), cap)

    def _special_tokens(self, text: str) -> list[int]:
        return self._model.tokenise(text, special=True)

    def _begun(self, messages: Messages, thinking: bool | None, call: int) -> str:
        """Return the prompt's text, up to where the answer begins, or thoughts do."""
        prompt = self._render(messages, thinking, call)
        if thinking is False:
            prompt += reasoning_filter.no_thoughts_text(prompt, self._marks)
        return prompt

    def try_template(self) -> None:
        """Render a first prompt, which has to be in what is made of it. Raises Failure."""
        word = f"Hello{os.urandom(4).hex()}"
        try:
            prompt = self._render([{"role": "user", "content": word}], None)
        except Failure as failure:
            if failure.failed.error == "ModelFileError":
                raise
            return  # it may take others
        if word not in prompt:
            raise _unusable("it leaves out what you ask")

    def _render(self, messages: Messages, thinking: bool | None, call: int = 0) -> str:
        try:
            with self._limits(sum(len(message["content"]) for message in messages), call):
                return self._template.render(messages, thinking)
        except TemplateUnusable as error:
            raise _unusable(str(error)) from error
        except TemplateRefused as error:
            raise Failure(
                "WorkerError",
                f"The model's chat template refuses this conversation: {str(error).rstrip('.')}.",
                "Start a new conversation, or choose another worker.",
            ) from error

    @contextmanager
    def _limits(self, input_chars: int, call: int = 0) -> Iterator[None]:
        """Bound what a template does. Raises Failure where it takes too much memory."""

        def give_up() -> NoReturn:
            failed = _unusable("it doesn't end")
            self._parent.send(failed.reply(call))
            os._exit(0)

        with rendering_limits(input_chars, give_up):
            yield

    def _cap(self, prompt: int, request: AnswerPrompt) -> int:
        """Return how many tokens the answer may have: as many as asked for, if there is room."""
        room = self._limit - prompt
        wanted = request.max_tokens or request.max_output
        if (least := min(wanted, USEFUL_TOKENS)) > room:
            needed = prompt if room < 0 else prompt + least
            raise Failure("ContextTooLong", "", needed=needed, limit=self._limit)
        return min(wanted, room)


def _unusable(why: str) -> Failure:
    message = f"The model's chat template can't be used: {why}."
    return Failure("ModelFileError", message, "Choose another model.")


def encode(
    model: Model, render: Callable[[Messages], str], messages: Messages, limit: int = sys.maxsize
) -> list[int]:
    """Return the prompt's tokens. What people and files say can't forge control tokens.

    Raises Failure for texts that are longer than `limit` for sure, before all of them is read.
    A text that names one ("<|im_end|>") is held out of the template by a random word, and comes in
    afterwards as mere text. White space stays around the word, for templates that trim.
    """
    forged: dict[str, str] = {}
    shown = []
    seen = 0
    for message in messages:
        text, is_forged = message["content"], False
        for at in range(0, len(text), PIECE_CHARS):
            piece = text[at : at + PIECE_CHARS + MARK_CHARS]
            plain = model.tokenise(piece, special=False)
            is_forged = is_forged or model.tokenise(piece, special=True) != plain
            seen += len(plain)
            if seen // 2 > limit:  # pieces overlap, by less than half of each
                needed = max(seen // 2, sum(len(one["content"]) for one in messages) // 4)
                raise Failure("ContextTooLong", "", needed=needed, limit=limit)
        if is_forged:
            word = f"held{os.urandom(16).hex()}"
            forged[word] = text.strip()
            text = text.replace(text.strip(), word)
        shown.append({"role": message["role"], "content": text})
    prompt = render(shown)
    tokens: list[int] = []
    for part in re.split(f"({'|'.join(forged)})", prompt) if forged else [prompt]:
        tokens += model.tokenise(forged.get(part, part), special=part not in forged)
    return model.with_bos(tokens)
