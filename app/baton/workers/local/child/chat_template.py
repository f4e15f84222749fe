"""Chat templates: the Jinja text in a model file that turns messages into one prompt.

They are untrusted, so a sandbox bounds what they compute: each text and list that a template makes
is counted before it is made, or right after where it can't be much longer than what it is made of.
`rendering_limits` bounds what no count sees, such as the text of nested lists.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import Any

from jinja2 import filters, nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{{ '<|im_start|>assistant\n' }}"
)
"""Stands in for a template that is missing or broken."""

MAX_REASON_CHARS = 300

MAX_OWN_CHARS, MAX_CHARS_PER_MESSAGE = 32_000, 256
"""How much longer a prompt may be than twice its messages: of 1 MB of control tokens, which only
the template may write, llama.cpp takes a minute to find all, while all others wait."""

_EFFORTS = {True: ("medium", "high"), False: ("none", "no_think", "minimal", "low")}
"""How much a model thinks, for templates that know steps: the first of these they name."""

MAX_REPEATED = 100_000
"""The largest number that a template may hand to a function or multiply a text with."""

MAX_NUMBER_BITS = 4096
"""How large a product may be: squared often enough, one takes minutes."""

BASE_CHARS, CHARS_PER_INPUT, CHARS_PER_COPY = 64_000_000, 512, 16
"""How many characters a template may make in all, and how many more for each of its input, and for
each of it and each message: those that add a message at a time to one text copy that each time."""

RENDER_SECONDS = 4.0
"""How much of the processor's time a template may take. An honest one takes milliseconds."""

_WATCH_SECONDS = 0.25

_SILENT_SECONDS = 8.0
"""How long it may take by the clock: where no thread gets to run, the parent ends a silent child
after 10 seconds, and doesn't know why."""

MAX_MEMORY_BYTES, BYTES_PER_INPUT = 256 << 20, 128
"""How much more memory a process may take while it renders, and how much more for each byte."""

_UNNEEDED = ("urlize", "wordwrap", "xmlattr")
"""Filters that no chat template needs, and that make much of little."""

_UNSAFE_METHODS = {"encode", "expandtabs", "format_map", "maketrans", "to_bytes", "translate"}
"""Methods of texts and numbers of which the same is true."""

_WIDTH = re.compile(r"\d+")
_STAR = re.compile(r"%[^%A-Za-z]*\*")

Messages = Sequence[dict[str, str]]
"""Messages as templates know them: `role` and `content`."""


class TemplateRefused(Exception):
    """The template can't render these messages; its own words say why."""


class TemplateUnusable(TemplateRefused):
    """The template takes too much time or memory, or leaves out what it is given."""


class ChatTemplate:
    """A compiled chat template. Raises jinja2.TemplateError if it can't be compiled."""

    def __init__(self, source: str, bos: str, eos: str) -> None:
        self._sandbox = TemplateSandbox({"tojson": _to_json})
        self._template = self._sandbox.from_string(source)
        self._source = source
        self._known = {
            "bos_token": bos,
            "eos_token": eos,
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
            "raise_exception": _refuse,
            "strftime_now": lambda text: datetime.now().strftime(text),
        }

    def render(self, messages: Messages, thinking: bool | None = None) -> str:
        """Return the prompt; the model writes thoughts first if `thinking`, and if it can.

        With None it does where its template has no switch for that. Raises TemplateRefused, or
        TemplateUnusable where it would refuse all others too.
        """
        ways = [messages]
        if len(messages) > 1 and messages[0]["role"] == "system":
            ways.append(_without_system(messages))
        refused: TemplateRefused | None = None
        for switches in (self._switches(thinking), {}):  # some refuse a switch they don't have
            for shown in ways:
                try:
                    return self._render(shown, switches)
                except TemplateUnusable:
                    raise
                except TemplateRefused as error:
                    refused = refused or error
        assert refused is not None
        raise refused

    def _switches(self, thinking: bool | None) -> dict[str, Any]:
        """Return what templates of all families look for, each in its own word."""
        found: dict[str, Any] = {"enable_thinking": bool(thinking), "thinking": bool(thinking)}
        if thinking is not None and "reasoning_effort" in self._source:
            named = (e for e in _EFFORTS[thinking] if f"'{e}'" in self._source.replace('"', "'"))
            if effort := next(named, "" if thinking else "low"):
                found["reasoning_effort"] = effort
        return found

    def _render(self, messages: Messages, switches: Mapping[str, Any]) -> str:
        self._sandbox.allow(sum(len(message["content"]) for message in messages), len(messages))
        try:
            prompt = self._template.render(messages=messages, **self._known, **switches)
        except TemplateRefused:
            raise
        except (SecurityError, RecursionError, MemoryError) as error:
            raise TemplateUnusable(_reason(error)) from error
        except Exception as error:  # a template can fail in as many ways as a program
            raise TemplateRefused(_reason(error)) from error
        if not prompt.strip():
            raise TemplateUnusable("it makes an empty prompt")
        given = sum(2 * len(message["content"]) + MAX_CHARS_PER_MESSAGE for message in messages)
        if len(prompt) > MAX_OWN_CHARS + given:
            raise TemplateUnusable("it makes too long a text")
        return prompt


def compile_template(source: str | None, bos: str, eos: str) -> tuple[ChatTemplate, str]:
    """Return the model's template, or ChatML with a sentence on why it stands in."""
    note = "The model has no chat template, so its answers may ramble."
    if source is not None:
        try:
            return ChatTemplate(source, bos, eos), ""
        except Exception:  # Python compiles what Jinja makes of it, and has limits of its own
            note = "The model's chat template is broken, so its answers may ramble."
    return ChatTemplate(CHATML, bos, eos), note


def _without_system(messages: Messages) -> Messages:
    """Put the system text into the first prompt, for templates that know no system role."""
    system, first, *rest = messages
    merged = {"role": first["role"], "content": f"{system['content']}\n\n{first['content']}"}
    return [merged, *rest]


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return a value as JSON; with Transformers' parameters, and no others of Python."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _refuse(message: str) -> None:
    raise TemplateRefused(str(message)[:MAX_REASON_CHARS].rstrip("."))


def _reason(error: BaseException) -> str:
    """Return in a few words why a template failed."""
    if isinstance(error, MemoryError):
        return "it takes too much memory"
    if isinstance(error, RecursionError):
        return "it calls itself without an end"
    return (str(error) or type(error).__name__)[:MAX_REASON_CHARS].rstrip(".")


class _Generation(Extension):
    """Passes Transformers' `{% generation %}` blocks through."""

    tags = {"generation"}  # noqa: RUF012 - as jinja2 declares it

    def parse(self, parser: Parser) -> Any:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _CountingGenerator(CodeGenerator):
    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.count(")
        super().visit_Concat(node, frame)
        self.write(")")


class TemplateSandbox(ImmutableSandboxedEnvironment):
    """An environment in which templates make no more than `allow` has allowed them.

    Raises SecurityError from a template that does. Constants aren't computed when a template is
    compiled, before anything is allowed.
    """

    intercepted_binops = frozenset(["**", "*", "+", "%"])
    code_generator_class = _CountingGenerator

    def __init__(self, own_filters: Mapping[str, Callable[..., Any]]) -> None:
        extensions = [_Generation, loopcontrols]
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=extensions, optimized=False
        )
        self._left = 0
        del self.globals["lipsum"]
        own: dict[str, Callable[..., Any]] = {
            **own_filters,
            "replace": self._replace,
            "indent": self._indent,
            "join": self._join,
            "format": lambda text, *args, **names: self._formatted(str(text), names or args),
        }
        known = {name: one for name, one in self.filters.items() if name not in _UNNEEDED}
        self.filters = {name: self._counting(one) for name, one in {**known, **own}.items()}

    def allow(self, input_chars: int, messages: int) -> None:
        """Allow a new rendering as much as so many messages of that length may need."""
        self._left = BASE_CHARS + (CHARS_PER_INPUT + CHARS_PER_COPY * messages) * input_chars

    def charge(self, chars: int) -> None:
        """Count what is about to be made. Raises SecurityError where it is too much."""
        self._left -= chars
        if self._left < 0:
            raise SecurityError("it makes too long a text")

    def count(self, value: Any) -> Any:
        """Return a value, which has been counted."""
        if isinstance(value, (str, bytes, list, tuple, dict)):
            self.charge(len(value))
        return value

    def concat(self, parts: Iterable[str]) -> str:
        """Join the parts of an output; they are counted as they come."""
        return "".join(map(self.count, parts))

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Compute an operation that could make much of little."""
        if operator == "**":
            raise SecurityError("it computes powers")
        if operator == "%" and isinstance(left, str):
            return self._formatted(left, right)
        if operator == "*":
            _refuse_product(left, right)
        return self.count(super().call_binop(context, operator, left, right))

    def call(self, context: Any, called: Any, *args: Any, **names: Any) -> Any:
        """Call a function or a method."""
        _refuse_large_numbers([*args, *names.values()])
        text = getattr(called, "__self__", None)
        if isinstance(text, str) and called.__name__ == "replace" and len(args) > 1:
            return self._replace(text, *args)
        if isinstance(text, str) and called.__name__ == "join" and args:
            return self._join(args[0], text)
        return self.count(super().call(context, called, *args, **names))

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Whether a template may use an attribute."""
        is_unsafe = attr in _UNSAFE_METHODS and isinstance(obj, (str, bytes, int))
        return not is_unsafe and super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return a text's own `format`, bounded; None for all else."""
        text = getattr(value, "__self__", None)
        if not isinstance(text, str) or value.__name__ != "format":
            return None
        formatter = _CountingFormatter(self)
        return lambda *args, **names: formatter.vformat(text, args, names)

    def _counting(self, made: Callable[..., Any]) -> Callable[..., Any]:
        skipped = 2 if hasattr(made, "jinja_pass_arg") else 1  # what jinja2 and the value take

        @wraps(made)  # with its mark for what jinja2 passes
        def counting(*args: Any, **names: Any) -> Any:
            _refuse_large_numbers([*args[skipped:], *names.values()])
            return self.count(made(*args, **names))

        return counting

    def _replace(self, value: Any, old: Any, new: Any, count: int | None = None) -> str:
        text, old, new = str(value), str(old), str(new)
        self.charge(text.count(old) * len(new))
        replaced = text.replace(old, new, -1 if count is None else count)
        self.charge(len(replaced))
        return replaced

    def _join(self, items: Any, between: Any = "", attribute: Any = None) -> str:
        if attribute is not None:
            items = map(filters.make_attrgetter(self, attribute), items)
        texts = []
        for item in items:
            texts.append(self.count(str(item)))
            self.charge(len(str(between)))
        return str(between).join(texts)

    def _indent(self, value: Any, width: int | str = 4, *args: Any, **names: Any) -> str:
        lines = str(value).count("\n") + 1
        self.charge(lines * (len(width) if isinstance(width, str) else max(width, 0)))
        return filters.do_indent(value, width, *args, **names)

    def _formatted(self, text: str, args: Any) -> str:
        if _STAR.search(text):
            raise SecurityError("it takes a text's width from a value")
        parts = args.values() if isinstance(args, dict) else args
        shown = parts if isinstance(args, (tuple, dict)) else [args]
        longest = max((len(one) for one in shown if isinstance(one, str)), default=0)
        widths = sum(int(width[:20]) for width in _WIDTH.findall(text))
        self.charge(widths + longest * text.count("%"))
        formatted: str = text % args
        self.charge(len(formatted))
        return formatted


class _CountingFormatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        widths = map(int, (width[:20] for width in _WIDTH.findall(format_spec)))
        self._env.charge(sum(widths))  # type: ignore[attr-defined]
        return self._env.count(super().format_field(value, format_spec))  # type: ignore[attr-defined]


def _refuse_product(left: Any, right: Any) -> None:
    for one, other in ((left, right), (right, left)):
        repeats = isinstance(one, int) and hasattr(other, "__len__")
        if repeats and one * len(other) > MAX_REPEATED:
            raise SecurityError("it makes too long a text")
    factors = [one for one in (left, right) if isinstance(one, int)]
    if len(factors) == 2 and sum(one.bit_length() for one in factors) > MAX_NUMBER_BITS:
        raise SecurityError("it computes too large a number")


def _refuse_large_numbers(values: Iterable[Any]) -> None:
    for value in values:
        if isinstance(value, int) and abs(value) > MAX_REPEATED:
            raise SecurityError("it names too large a number")


@contextmanager
def rendering_limits(input_bytes: int, give_up: Callable[[], object]) -> Iterator[None]:
    """Bound the time and the memory of what this process does; MemoryError is raised for that.

    `give_up` is called in a thread when the time is over, and has to end the process. Where no
    thread gets to run, an alarm ends it a second later, or by the clock. Memory has a limit on
    Linux only.
    """
    ended = threading.Event()
    until = time.process_time() + RENDER_SECONDS

    def watch() -> None:
        while not ended.wait(_WATCH_SECONDS):
            if time.process_time() > until:
                give_up()

    threading.Thread(target=watch, daemon=True).start()
    limit = _memory_limit(MAX_MEMORY_BYTES + BYTES_PER_INPUT * input_bytes)
    _set_alarms(RENDER_SECONDS + 1, _SILENT_SECONDS)
    try:
        yield
    finally:
        _set_alarms(0, 0)
        if limit is not None:
            limit()
        ended.set()


def _set_alarms(seconds: float, wall_seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, wall_seconds)


def _memory_limit(bytes: int) -> Callable[[], None] | None:
    """Allow this process so much more memory; return what takes the limit away again."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        before = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        allowed = pages * os.sysconf("SC_PAGE_SIZE") + bytes
        if before[0] == resource.RLIM_INFINITY or allowed < before[0]:
            resource.setrlimit(resource.RLIMIT_AS, (allowed, before[1]))
            return lambda: resource.setrlimit(resource.RLIMIT_AS, before)
    return None
