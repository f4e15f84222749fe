"""GBNF, as far as Baton writes it: texts that a grammar allows, and whether it allows a text."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from functools import cache

_RULE = re.compile(r"^([a-z][a-z0-9-]*) ::= (.*)$")
_TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*")|(?P<chars>\[(?:[^\]\\]|\\.)*\])|(?P<name>[a-z][a-z0-9-]*)"""
    r"""|(?P<sign>[()|?*+]|\{\d+,\d+\}))"""
)
_SAMPLE = [chr(n) for n in range(128)] + list("äß\u00a0é漢字\u2028\u3000🙂\u200b-«'")


@dataclass(frozen=True)
class Node:
    """A part of a rule: `kind` is text, chars, name, all, any or times."""

    kind: str
    value: str = ""
    parts: tuple[Node, ...] = ()
    least: int = 1
    most: int = 1


class Grammar:
    """A grammar, read strictly: what Baton doesn't write is an error."""

    def __init__(self, source: str) -> None:
        self._rules: dict[str, Node] = {}
        for line in source.splitlines():
            match = _RULE.match(line)
            assert match, line
            assert match[1] not in self._rules, f"{match[1]} is there twice"
            self._rules[match[1]] = _Reader(match[2]).read()

    def write(self, rng: random.Random) -> str:
        """Return a text that the grammar allows."""
        return self._write(self._rules["root"], rng)

    def allows(self, text: str) -> bool:
        """Whether the grammar allows a text."""
        return re.fullmatch(self._pattern(self._rules["root"]), text, re.DOTALL) is not None

    def _write(self, node: Node, rng: random.Random) -> str:
        if node.kind == "text":
            return node.value
        if node.kind == "chars":
            return rng.choice(_allowed_chars(node.value))
        if node.kind == "name":
            return self._write(self._rules[node.value], rng)
        if node.kind == "any":
            return self._write(rng.choice(node.parts), rng)
        if node.kind == "all":
            return "".join(self._write(part, rng) for part in node.parts)
        most = rng.choice((node.least, min(node.most, node.least + 12), node.most))
        return "".join(
            self._write(node.parts[0], rng) for _ in range(rng.randint(node.least, most))
        )

    def _pattern(self, node: Node) -> str:
        if node.kind == "text":
            return re.escape(node.value)
        if node.kind == "chars":
            return node.value
        if node.kind == "name":
            return self._pattern(self._rules[node.value])
        inner = [self._pattern(part) for part in node.parts]
        if node.kind == "any":
            return f"(?:{'|'.join(inner)})"
        if node.kind == "all":
            return "".join(inner)
        return f"(?:{inner[0]}){{{node.least},{node.most}}}"


class _Reader:
    def __init__(self, source: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        position = 0
        while source[position:].strip():
            match = _TOKEN.match(source, position)
            assert match is not None, source[position:]
            assert match.lastgroup is not None
            self._tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()

    def read(self) -> Node:
        node = self._alternatives()
        assert not self._tokens, self._tokens
        return node

    def _alternatives(self) -> Node:
        parts = [self._sequence()]
        while self._tokens and self._tokens[0] == ("sign", "|"):
            self._tokens.pop(0)
            parts.append(self._sequence())
        return Node("any", parts=tuple(parts))

    def _sequence(self) -> Node:
        parts = []
        while self._tokens and self._tokens[0] not in (("sign", "|"), ("sign", ")")):
            parts.append(self._item())
        return Node("all", parts=tuple(parts))

    def _item(self) -> Node:
        kind, value = self._tokens.pop(0)
        if (kind, value) == ("sign", "("):
            node = self._alternatives()
            assert self._tokens.pop(0) == ("sign", ")")
        elif kind == "text":
            node = Node("text", _unescape(value[1:-1]))
        else:
            assert kind in ("chars", "name"), value
            node = Node(kind, value)
        return self._times(node)

    def _times(self, node: Node) -> Node:
        if not self._tokens or self._tokens[0][0] != "sign":
            return node
        sign = self._tokens[0][1]
        if sign == "?":
            bounds = (0, 1)
        elif sign.startswith("{"):
            low, high = sign[1:-1].split(",")
            bounds = (int(low), int(high))
        else:
            return node
        self._tokens.pop(0)
        return Node("times", parts=(node,), least=bounds[0], most=bounds[1])


@cache
def _allowed_chars(chars: str) -> list[str]:
    """Return the sample's characters that a class holds."""
    return [c for c in _SAMPLE if re.fullmatch(chars, c)]


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text)
