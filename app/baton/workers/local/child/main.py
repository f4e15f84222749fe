"""The model process: a child that holds one model and answers one prompt at a time.

`python -m baton.ipc.child_entry runner` speaks the messages of `workers.local.messages` on stdin
and stdout. It holds no secret, connects nowhere, and ends at once when its parent does.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import asdict

from baton.ipc.messages import Failed, Message, Stopped
from baton.ipc.parent_channel import Failure, ParentChannel, serve
from baton.workers.local.messages import (
    REQUESTS,
    AnswerDone,
    AnswerPrompt,
    CheckFile,
    DescribeLibrary,
    FileChecked,
    LoadModel,
    ModelLoaded,
    ModelLoading,
    OnnxInfo,
    PromptProgress,
)

if TYPE_CHECKING:
    from baton.workers.local.child import llama
    from baton.workers.local.child.chat_template import ChatTemplate, Messages
    from baton.workers.local.child.reasoning_filter import ThoughtFilter, ThoughtMarks
    from baton.workers.local.child.sampler import Sampler

LOADING_SECONDS = 0.05
RENDER_SECONDS = 10.0
"""How long a chat template may take; one that never ends is the model file's fault."""

MAX_BYTES_PER_TOKEN = 32
"""A text with more than this isn't counted exactly: endless spaces would take minutes."""

USEFUL_TOKENS = 256
"""Less room than this for an answer is none, and none for thoughts before it."""


class Runner:
    """Loads one model, then answers one prompt at a time."""

    def __init__(self, parent: ParentChannel) -> None:
        self._parent = parent
        self._idle_seconds: float | None = None
        self._call = 0
        self._limit = 0
        self._model: llama.Model
        self._context: llama.Context
        self._chat: llama.Context
        self._planning: llama.Context | None = None
        self._threads = 0
        self._template: ChatTemplate
        self._marks: tuple[ThoughtMarks, ...]
        self._mark_tokens: set[int]
        self._thoughts: ThoughtFilter
        self._adapters: llama.Adapters

    def serve(self) -> None:
        """Do what is asked, until nothing was for too long."""
        while (request := self._parent.receive(self._idle_seconds)) is not None:
            try:
                match request:
                    case LoadModel():
                        self._load(request)
                    case AnswerPrompt():
                        self._answer(request)
                    case CheckFile(path=path):
                        self._check(path)
                    case DescribeLibrary(library=library):
                        self._describe(library)
            except Failure as failure:
                self._parent.send(failure.reply(request.id))

    def _describe(self, library: str) -> None:
        if library == "llama":
            self._parent.send(_start_llama().info())
        else:
            onnxruntime = importlib.import_module("onnxruntime")
            providers = onnxruntime.get_available_providers()
            self._parent.send(OnnxInfo(onnxruntime.__version__, providers))

    def _check(self, path: Path) -> None:
        llama = _start_llama()
        try:
            llama.check_file(path)
        except llama.LlamaError as error:
            raise _unloadable(path, error) from error
        self._parent.send(FileChecked())

    def _load(self, request: LoadModel) -> None:
        self._parent.send(ModelLoading(0.0))
        # While the model is read, natively and on one core, the other imports what comes after.
        modules = (
            "psutil",
            "baton.workers.local.child.chat_template",
            "baton.workers.local.child.text_stream",
        )
        importing = threading.Thread(target=lambda: [importlib.import_module(m) for m in modules])
        importing.start()
        # This one is only wanted with the first word, so nothing waits for it here.
        threading.Thread(target=importlib.import_module, args=["numpy"], daemon=True).start()
        llama = _start_llama()
        try:
            self._load_model(request)
            importing.join()
            self._prepare(request.expected.total)
        except llama.LlamaError as error:
            raise _unloadable(request.path, error) from error
        self._idle_seconds = request.idle_seconds

    def _load_model(self, request: LoadModel) -> None:
        """Load with as many layers on the GPU as it takes: all that fit, half of them, none."""
        from baton.workers.local.child import llama
        from baton.workers.local.child.llama_loader import LlamaError

        layers = min(request.gpu_layers, request.expected.layers + 1)
        if layers < 0:
            layers = llama.layers_that_fit(request.expected)
        layers = int(layers * request.gpu_share)
        while True:
            try:
                return self._load_with(layers, request)
            except LlamaError:
                if not layers:
                    raise
                layers //= 2

    def _load_with(self, layers: int, request: LoadModel) -> None:
        """Load the model, and a first context, in which a GPU's memory may end as well."""
        from baton.workers.local.child import llama
        from baton.workers.local.child.cpu_threads import physical_cores
        from baton.workers.local.child.llama_loader import LlamaError

        progress = self._every(LOADING_SECONDS, ModelLoading)
        model = llama.Model(request.path, layers, progress)
        limit = min(request.context, model.trained_context or request.context)
        threads = request.threads or physical_cores()
        quantised = request.expected.quantised
        try:
            context = llama.Context(model, limit, threads, self._is_cancelled, quantised)
        except LlamaError:
            model.free()
            raise
        self._model, self._chat, self._limit = model, context, limit
        self._context, self._threads = context, threads

    def _prepare(self, size: int) -> None:
        from baton.workers.local.child import llama
        from baton.workers.local.child.chat_template import compile_template

        model = self._model
        self._template, note = compile_template(
            model.template, model.special_text("bos"), model.special_text("eos")
        )
        self._adapters = llama.Adapters(model)
        self._know_marks(model)
        on_gpu = f"{model.gpu_layers}/{model.layers} layers on GPU"
        self._parent.send(
            ModelLoaded(
                context=self._limit,
                parameters=model.parameters,
                bytes=size,
                hardware=on_gpu if model.gpu_layers else "CPU only",
                licence=model.metadata("general.license") or "",
                note=note,
            )
        )

    def _know_marks(self, model: llama.Model) -> None:
        """Find out what the model puts around its thoughts."""
        from baton.workers.local.child.reasoning_filter import known_marks

        def tokens(text: str) -> list[int]:
            return model.tokenise(text, special=True)

        self._marks = known_marks(model.template or "", lambda text: len(tokens(text)) == 1)
        named = (t for mark in self._marks for text in mark[:2] for t in tokens(text))
        self._mark_tokens = {t for t in named if not model.piece(t)}

    def _answer(self, request: AnswerPrompt) -> None:
        from baton.core.sampling_settings import recommended_sampling, resolve_sampling
        from baton.workers.local.child.llama_loader import LlamaError
        from baton.workers.local.child.sampler import FIRST_TOKENS, GrammarRefused

        self._call = request.id
        try:
            form = self._adapters.prompt(request.adapter)
            self._context = self._planning_context() if form else self._chat
            prompt = self._plain_tokens(request, form) if form else self._tokens(request)
            cap = self._cap(len(prompt), request)
            self._context.set_adapter(self._adapters.get(request.adapter), request.adapter_scale)
            file = recommended_sampling(self._model.metadata)
            sampling = resolve_sampling(asdict(request), file, self._model.parameters)
            first = cap if form else FIRST_TOKENS
            sampler = self._model.sampler(sampling, request.grammar, first)
            with contextlib.closing(sampler):
                known = self._context.read(prompt, self._every(0, PromptProgress))
                written = self._write(sampler, prompt, cap)
                confidence = sampler.confidence
        except GrammarRefused as error:
            raise Failure(
                "WorkerError",
                f"This worker can't keep to the form that the answer must have: {error}.",
                "Choose another worker.",
            ) from error
        except LlamaError as error:
            raise Failure("WorkerError", f"The model failed: {error}.", "Try again.") from error
        if self._is_cancelled():
            return self._parent.send(Stopped(id=self._call))
        self._parent.send(
            AnswerDone(
                tokens_in=len(prompt),
                tokens_out=written,
                finish="length" if written >= cap or self._thoughts.is_thinking else "stop",
                cached=known,
                context=self._limit,
                confidence=confidence.mean,
                least=confidence.least,
                first=confidence.first,
                lines=confidence.lines if form else [],
                id=self._call,
            )
        )

    def _is_cancelled(self) -> bool:
        return self._parent.is_cancelled(self._call)

    def _planning_context(self) -> llama.Context:
        """Return a context for prompts without a chat, so that planning costs the chat no cache."""
        from baton.workers.local.child import llama

        if self._planning is None:
            limit = min(self._limit, llama.MIN_CONTEXT_TOKENS)
            self._planning = llama.Context(self._model, limit, self._threads, self._is_cancelled)
        return self._planning

    def _plain_tokens(self, request: AnswerPrompt, form: str) -> list[int]:
        """Turn the last message into the tokens of a prompt in an adapter's own form."""
        from baton.workers.local.child.llama import MIN_CONTEXT_TOKENS
        from baton.workers.local.child.reasoning_filter import ThoughtFilter

        text = form.replace("{prompt}", request.messages[-1]["content"])
        limit = min(self._limit, MIN_CONTEXT_TOKENS)
        if len(text.encode("utf-8", "replace")) > limit * MAX_BYTES_PER_TOKEN:
            raise Failure("ContextTooLong", "", needed=len(text) // 4, limit=limit)
        self._thoughts = ThoughtFilter()
        tokens = self._model.with_bos(self._model.tokenise(text, special=False))
        if len(tokens) + USEFUL_TOKENS > limit:
            raise Failure("ContextTooLong", "", needed=len(tokens) + USEFUL_TOKENS, limit=limit)
        return tokens

    def _tokens(self, request: AnswerPrompt) -> list[int]:
        """Turn messages into the tokens of a prompt."""
        messages = request.messages
        size = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
        if size > self._limit * MAX_BYTES_PER_TOKEN:
            raise Failure("ContextTooLong", "", needed=size // 4, limit=self._limit)
        brief = request.max_tokens is not None and request.max_tokens < USEFUL_TOKENS
        thinking = False if request.grammar or brief else request.thinking
        return encode(self._model, lambda shown: self._begun(shown, thinking), messages)

    def _begun(self, messages: Messages, thinking: bool | None) -> str:
        """Return the prompt, up to where the answer begins, or thoughts do."""
        from baton.workers.local.child import reasoning_filter

        prompt = self._render(messages, thinking)
        if thinking is False:
            prompt += reasoning_filter.no_thoughts_text(prompt, self._marks)
        self._thoughts = reasoning_filter.ThoughtFilter(
            self._marks, reasoning_filter.open_marks(prompt, self._marks)
        )
        return prompt

    def _render(self, messages: Messages, thinking: bool | None) -> str:
        from baton.workers.local.child.chat_template import TemplateRefused

        slow = threading.Timer(RENDER_SECONDS, self._give_up_rendering)
        slow.start()
        try:
            return self._template.render(messages, thinking)
        except TemplateRefused as error:
            raise Failure(
                "WorkerError",
                f"The model's chat template refuses this conversation: {error}.",
                "Start a new conversation, or choose another worker.",
            ) from error
        finally:
            slow.cancel()

    def _give_up_rendering(self) -> NoReturn:
        message = "The model's chat template doesn't come to an end."
        hint = "Choose another model."
        self._parent.send(Failed("ModelFileError", message, hint, id=self._call))
        os._exit(0)

    def _cap(self, prompt: int, request: AnswerPrompt) -> int:
        """Return how many tokens the answer may have."""
        room = self._limit - prompt
        asked, most = request.max_tokens, request.max_output
        wanted = asked or min(USEFUL_TOKENS, most)
        if min(wanted, USEFUL_TOKENS) > room:
            needed = prompt + wanted
            raise Failure("ContextTooLong", "", needed=needed, limit=self._limit)
        if wanted > room:
            raise Failure(
                "WorkerError",
                f"The prompt leaves room for {room:,} tokens, and {wanted:,} were asked for.",
                "Ask for fewer.",
            )
        return asked or min(most, room)

    def _write(self, sampler: Sampler, prompt: list[int], cap: int) -> int:
        """Send the answer's text as it comes; return how many tokens it has, thoughts included.

        Thoughts that would leave no room for the answer are brought to an end, and so are those at
        which the model itself stops.
        """
        from baton.workers.local.child.text_stream import TextStream

        text = TextStream(self._parent, self._call, self._thoughts)
        tokens = list(prompt)
        most = cap - cap // 4
        while True:
            with contextlib.closing(self._context.write(sampler)) as new:
                for token in itertools.islice(new, cap - text.written):
                    tokens.append(token)
                    mused = self._thoughts.is_thinking
                    piece = self._model.piece(token, token in self._mark_tokens)
                    text.add(piece)
                    if b"\n" in piece:
                        sampler.confidence.end_line()
                    if mused and not self._thoughts.is_thinking:
                        sampler.confidence.reset()  # it is of the answer, not of the way to it
                    elif mused and text.thought >= most:
                        break
            ending = self._model.tokenise(self._thoughts.closing_text, special=True)
            if not ending or self._is_cancelled() or len(ending) >= cap - text.written:
                break
            for token in ending:
                text.add(self._model.piece(token, token in self._mark_tokens))
            tokens += ending
            self._context.read(tokens, lambda *_: None)
        text.finish()
        return text.written

    def _every(self, seconds: float, kind: type[Message]) -> Callable[..., None]:
        """Return a function that sends its arguments as such a message, but not too often."""
        last = 0.0

        def report(*values: float) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= seconds:
                last = now
                self._parent.send(kind(*values, id=self._call))

        return report


def encode(model: llama.Model, render: Callable[[Messages], str], messages: Messages) -> list[int]:
    """Return the prompt's tokens. What people and files say can't forge control tokens.

    A text that names one ("<|im_end|>") is held out of the template by a random word, and comes in
    afterwards as mere text. White space stays around the word, for templates that trim.
    """
    forged: dict[str, str] = {}
    shown = []
    for message in messages:
        text = message["content"]
        if model.tokenise(text, special=True) != model.tokenise(text, special=False):
            word = f"held{os.urandom(16).hex()}"
            forged[word] = text.strip()
            text = text.replace(text.strip(), word)
        shown.append({"role": message["role"], "content": text})
    prompt = render(shown)
    tokens: list[int] = []
    for part in re.split(f"({'|'.join(forged)})", prompt) if forged else [prompt]:
        tokens += model.tokenise(forged.get(part, part), special=part not in forged)
    return model.with_bos(tokens)


def _log_to_stderr(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


def _unloadable(path: Path, error: Exception) -> Failure:
    return Failure(
        "ModelFileError",
        f"{path.name} can't be loaded: {error}.",
        "The file may be broken or too new; download it again or choose another.",
    )


def _start_llama() -> ModuleType:
    """Import llama.cpp now that the parent's end would be noticed, and quieten it."""
    try:
        from baton.workers.local.child import llama

        llama.start(_log_to_stderr)
    except Exception as error:  # a library that can't be loaded says so in many ways
        raise Failure(
            "WorkerUnavailable",
            f"llama.cpp can't be loaded: {error}.",
            "Run `baton doctor`; installing Baton again repairs most of it.",
        ) from error
    return llama


def main() -> None:
    """Run until the parent is gone or nothing was asked for too long."""
    serve(REQUESTS, lambda parent: Runner(parent).serve())


if __name__ == "__main__":
    main()
