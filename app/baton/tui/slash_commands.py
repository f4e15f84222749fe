"""The `/` commands: what they are called, what they do, and which text is one."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    """One command: `action` is the screen's action, `takes` names its argument for the hint.

    `long` is whether that may have several lines.
    """

    name: str
    action: str
    words: str
    takes: str = ""
    long: bool = False


COMMANDS = (
    Command("new", "new", "Begin a new conversation"),
    Command("search", "conversations", "Find earlier conversations", "WORDS"),
    Command("rename", "rename", "Rename this conversation", "TITLE"),
    Command("export", "export", "Save this conversation as Markdown", "PATH"),
    Command("regenerate", "regenerate", "Answer the newest prompt again"),
    Command("plan", "plan", "See the plan before anything is done", "TEXT", long=True),
    Command("why", "route", "Say in a sentence why the answer came about so"),
    Command("continue", "resume", "Go on with an answer that was interrupted"),
    Command("mode", "mode", "How far to go: auto, local, mini or ultra", "MODE"),
    Command("strategy", "strategy", "Choose a strategy or a workflow by its name", "NAME"),
    Command("model", "models", "See the models; choose which answers", "WORKER"),
    Command("pull", "pull", "Download a model: /pull qwen3.5-4b", "MODEL"),
    Command("recommend", "recommend", "Say which models suit this machine"),
    Command("private", "private", "Keep this conversation on this machine", "on|off"),
    Command("offline", "offline", "Connect to nothing but this machine", "on|off"),
    Command("budget", "budget", "See the money; set a ceiling: /budget day 2", "SCOPE USD"),
    Command("egress", "egress", "See everything that left this machine"),
    Command("copy", "copy", "Copy the newest answer"),
    Command("good", "good", "Say that the newest answer is good, or take that back"),
    Command("bad", "bad", "Say that the newest answer is bad, or take that back"),
    Command("learn", "learn", "Learn from what you did with answers", "[undo]"),
    Command("help", "app.help", "Show the keys and commands"),
    Command("quit", "app.quit", "Leave Baton"),
)
_COMMAND = re.compile(r"/([a-z?]+)(?:[ \t]+(.*))?\s*\Z", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Typed:
    """What was typed as a command: its name and what came after it."""

    name: str
    argument: str


def parse(text: str) -> Typed | None:
    """Return the command in a prompt, or None for what is text.

    Text is what begins with `//`, paths, several lines (but for commands that take them), and words
    after a command that takes none.
    """
    if (found := _COMMAND.match(text)) is None:
        return None
    typed = Typed(found[1].lower(), (found[2] or "").strip())
    meant = matching(typed.name)
    if "\n" in typed.argument and not (len(meant) == 1 and meant[0].long):
        return None
    return None if typed.argument and len(meant) == 1 and not meant[0].takes else typed


def unescaped(text: str) -> str:
    """Return a prompt without the slash that kept it from being a command."""
    return text[1:] if text.startswith("//") and parse(text[1:]) is not None else text


def matching(name: str) -> list[Command]:
    """Return the commands that begin so; exactly the one, where a name is complete."""
    exact = [command for command in COMMANDS if command.name == name]
    return exact or [command for command in COMMANDS if command.name.startswith(name)]


def hint(name: str) -> str:
    """Return the end of a sentence about a name that is no command's: which could be meant."""
    if found := [command.name for command in matching(name)]:
        return f": {', '.join(f'/{one}' for one in found)}."
    near = difflib.get_close_matches(name, [command.name for command in COMMANDS], n=1)
    if near:
        return f"; did you mean /{near[0]}?"
    return f": {', '.join(f'/{command.name}' for command in COMMANDS)}."
