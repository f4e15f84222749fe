"""The protocols of the endpoint: how each reads a request, and writes an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from baton.server.api_errors import ApiError
from baton.server.chat_completions import ChatStream, completion, read_chat
from baton.server.client_request import ClientRequest
from baton.server.completions import CompletionStream, completion_object, read_completion
from baton.server.messages import MessageStream, message_object, read_messages
from baton.server.responses import ResponseStream, read_responses, response
from baton.server.served_answer import Answer
from baton.server.tool_calls import ToolCall


class StreamWriter(Protocol):
    """Writes an answer in a protocol's events, while it comes."""

    def begin(self, answer: Answer) -> list[dict[str, Any]]: ...

    def text(self, answer: Answer, piece: str) -> list[dict[str, Any]]: ...

    def call(self, answer: Answer, call: ToolCall) -> list[dict[str, Any]]: ...

    def end(self, answer: Answer) -> list[dict[str, Any]]: ...

    def fail(self, answer: Answer, error: ApiError) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """A protocol: how requests are read and answers written.

    `is_named` is whether each event of a stream has its type beside it, `last` what ends one, and
    `ping` what keeps one alive.
    """

    read: Callable[[Mapping[str, Any], Mapping[str, str]], ClientRequest]
    whole: Callable[[Answer, ClientRequest], dict[str, Any]]
    stream: Callable[[ClientRequest], StreamWriter]
    is_named: bool = True
    last: bytes = b""
    ping: bytes = b": still here\n\n"
    is_anthropic: bool = False

    def error(self, error: ApiError) -> dict[str, Any]:
        """Return an error as this protocol's clients read it."""
        return error.anthropic() if self.is_anthropic else error.openai()


CHAT = Dialect(
    read_chat,
    completion,
    ChatStream,
    is_named=False,
    last=b"data: [DONE]\n\n",
)
RESPONSES = Dialect(read_responses, response, ResponseStream)
MESSAGES = Dialect(
    read_messages,
    lambda answer, asked: message_object(answer),
    lambda asked: MessageStream(),
    ping=b'event: ping\ndata: {"type": "ping"}\n\n',
    is_anthropic=True,
)


COMPLETIONS = Dialect(
    read_completion,
    completion_object,
    CompletionStream,
    is_named=False,
    last=b"data: [DONE]\n\n",
)
