"""Messages between a model process and its parent."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from msgspec import Struct

from baton.gguf.memory_fit import ModelLoad
from baton.ipc.messages import FinalReply, Message

MAX_BYTES_PER_TOKEN = 32
"""A text with more than this isn't counted exactly: endless spaces would take minutes."""

# Requests


class LoadModel(Message, tag="load"):
    """Load a model; `gpu_share` is how much of what fits on GPUs is tried there.

    It answers up to `slots` requests at once. The process ends when it has been idle for
    `idle_seconds` (None: never).
    """

    path: Path
    context: int
    threads: int
    gpu_layers: int
    gpu_share: float
    expected: ModelLoad
    idle_seconds: float | None
    slots: int = 1


class AnswerPrompt(Message, tag="ask"):
    """Answer a conversation; None is what the model file recommends, and see GenerationSettings.

    The answer keeps to the `grammar` (GBNF), or else to the JSON `schema`, and ends before the
    first of `stop`. With `only_counts` nothing is answered, and the prompt's tokens are counted.
    Nothing that is read for a `client` serves another.
    """

    messages: list[dict[str, str]]
    max_tokens: int | None
    max_output: int
    grammar: str | None = None
    thinking: bool | None = None
    adapter: Path | None = None
    adapter_scale: float = 1.0
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repeat_penalty: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None
    schema: str = ""
    stop: tuple[str, ...] = ()
    only_counts: bool = False
    client: str = ""


class CheckFile(Message, tag="check"):
    """Load all of a model file but its weights."""

    path: Path


class DescribeLlama(Message, tag="info"):
    """Load llama.cpp and describe it."""


REQUESTS = LoadModel | AnswerPrompt | CheckFile | DescribeLlama

# Replies


class ModelLoading(Message, tag="loading"):
    """How much of a model is loaded, from 0 to 1, and whether any of it goes to a GPU."""

    fraction: float
    on_gpu: bool = True


class ModelLoaded(Message, tag="loaded"):
    """A model is ready; `bytes` is what it may take of memory."""

    context: int
    parameters: int
    bytes: int
    hardware: str
    licence: str
    note: str


class PromptProgress(Message, tag="reading"):
    """How many of the prompt's unknown tokens are read."""

    done: int
    total: int


class ThoughtTokens(Message, tag="thinking"):
    """How many tokens of thoughts were written since the last of these."""

    tokens: int
    tokens_per_second: float


class AnswerText(Message, tag="text"):
    """A piece of the answer."""

    text: str
    tokens: int


class AnswerSpeed(Message, tag="speed"):
    """How fast the answer is written."""

    tokens_per_second: float


class PromptCounted(FinalReply, tag="counted"):
    """How many tokens a prompt has."""

    tokens: int


class AnswerDone(FinalReply, tag="done"):
    """The answer's end; see core.messages.Usage."""

    tokens_in: int
    tokens_out: int
    finish: Literal["stop", "length"]
    cached: int
    context: int
    confidence: float | None
    least: float | None
    first: float | None
    lines: list[float]
    stop: str


class FileChecked(Message, tag="checked"):
    """llama.cpp would load the file; `note` is what is wrong with its chat template, or ""."""

    note: str = ""


class GpuDevice(Struct):
    """A GPU as llama.cpp sees it; memory in bytes. `shared` is one that uses the machine's own."""

    name: str
    description: str
    free: int
    total: int
    shared: bool = False


class LlamaInfo(Message, tag="llama"):
    """llama.cpp's version, the processor that it is made for, its build's abilities, and GPUs.

    `gpu_kinds` are those it is made for, each with why it can't be used, or "".
    """

    version: str
    processor: str
    system: str
    gpu: bool
    gpu_kinds: dict[str, str]
    devices: list[GpuDevice]


REPLIES = (
    ModelLoading
    | ModelLoaded
    | PromptProgress
    | ThoughtTokens
    | AnswerText
    | AnswerSpeed
    | AnswerDone
    | PromptCounted
    | FileChecked
    | LlamaInfo
)
