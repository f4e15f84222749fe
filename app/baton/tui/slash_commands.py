"""The `/` commands: what they are called, what they do, and which text is one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from baton.core.errors import ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.ledger_types import Policy, Scope, SpendingStyle
from baton.core.money import parse_usd
from baton.core.sanitiser import one_line
from baton.presentation.words import POLICY_NAMES

E = TypeVar("E", Policy, SpendingStyle)

CONVERSATION, ANSWERS, MODELS, MONEY, BATON = GROUPS = (
    "Conversation",
    "Answers",
    "Models",
    "Money and privacy",
    "Baton",
)
"""Under what the menu lists the commands, in this order."""


@frozen_dataclass
class SlashCommand:
    """One command: `action` is the screen's action, `argument` names its argument.

    `group` and `synonyms` are how the menu finds it, `binding` is the id of the key that does the
    same. `is_multiline` is whether the argument may have several lines, `may_spend` whether the
    command can cost money or let something leave this machine.
    """

    name: str
    action: str
    help: str
    argument: str = ""
    group: str = CONVERSATION
    synonyms: tuple[str, ...] = ()
    binding: str = ""
    is_multiline: bool = False
    may_spend: bool = False


def _command(
    group: str, name: str, help: str, argument: str, synonyms: str, action: str = "", **more: Any
) -> SlashCommand:
    """Describe a command; its action has its name unless `action` names another."""
    words = tuple(synonyms.split())
    return SlashCommand(name, action or name, help, argument, group, words, **more)


_C, _A, _M, _P, _B = GROUPS
COMMANDS = (
    _command(_C, "new", "Begin a new conversation", "", "clear reset", binding="chat.new"),
    _command(
        _C,
        "search",
        "Find, open or delete earlier conversations",
        "WORDS",
        "delete remove history find sessions resume restore",
        action="conversations",
        binding="chat.conversations",
    ),
    _command(
        _C, "find", "Find a message of this conversation", "WORDS", "search message grep jump"
    ),
    _command(_C, "rename", "Rename this conversation", "TITLE", "title", binding="chat.rename"),
    _command(_C, "export", "Save this conversation as Markdown", "PATH", "save write file"),
    _command(_C, "context", "See how full the context is", "", "tokens window memory compact"),
    _command(
        _A,
        "regenerate",
        "Answer the prompt again, as a new version",
        "",
        "again retry redo repeat",
        binding="turn.again",
        may_spend=True,
    ),
    _command(
        _A,
        "plan",
        "See the plan before anything is done",
        "TEXT",
        "preview steps conductor",
        is_multiline=True,
    ),
    _command(_A, "why", "Explain the newest answer", "", "reason route explain", action="route"),
    _command(
        _A,
        "continue",
        "Continue an answer that was interrupted",
        "",
        "resume go",
        action="resume",
        binding="turn.go_on",
        may_spend=True,
    ),
    _command(_A, "copy", "Copy the newest answer", "", "clipboard yank", binding="turn.copy"),
    _command(
        _A,
        "good",
        "Mark the answer as good, or take that back",
        "",
        "like rate thumbs up",
        binding="turn.good",
    ),
    _command(
        _A,
        "bad",
        "Mark the answer as bad, or take that back",
        "",
        "dislike rate thumbs down",
        binding="turn.bad",
    ),
    _command(
        _A,
        "mode",
        "How far to go: auto, local, mini or ultra",
        "MODE",
        "effort thinking auto local ultra mini",
    ),
    _command(
        _A, "strategy", "Choose a strategy or a workflow", "NAME", "workflow vote cascade conductor"
    ),
    _command(_M, "model", "Choose who answers", "WORKER", "models worker switch"),
    _command(_M, "pull", "Download a model: /pull qwen3.5-4b", "MODEL", "download install fetch"),
    _command(_M, "recommend", "See which models suit this machine", "", "suggest best hardware"),
    _command(
        _P,
        "connect",
        "Set up a cloud provider: model, key, ceiling",
        "MODEL",
        "provider key api cloud openai anthropic account add",
    ),
    _command(
        _P,
        "budget",
        "See the money; set a ceiling: /budget day 2",
        "SCOPE USD | policy | pace",
        "cost money price ceiling limit spend usage dollars policy pace",
    ),
    _command(
        _P,
        "private",
        "Keep this conversation on this machine",
        "on|off",
        "privacy secret confidential",
    ),
    _command(
        _P,
        "offline",
        "Connect to nothing but this machine, or lift that",
        "on|off",
        "network online airplane internet",
        may_spend=True,
    ),
    _command(_P, "egress", "See everything that left this machine", "", "sent log audit leak"),
    _command(
        _B, "serve", "Let other programs use Baton as a model", "PORT|off", "server api endpoint"
    ),
    _command(
        _B,
        "side",
        "Show or hide the side bar, in a wide window",
        "",
        "sidebar bar panel status queue memory gauge",
        binding="chat.side",
    ),
    _command(
        _B,
        "theme",
        "Choose the colours, seen as you go through them",
        "NAME",
        "color colors colour colours look dark light contrast appearance",
    ),
    _command(
        _B,
        "help",
        "Show the keys and commands",
        "",
        "shortcuts commands manual",
        action="app.help",
        binding="app.help",
    ),
    _command(
        _B, "quit", "Quit Baton", "", "exit leave close bye", action="app.quit", binding="app.quit"
    ),
)
_COMMAND_PATTERN = re.compile(r"/([a-z?]+)(?:[ \t]+(.*))?\s*\Z", re.IGNORECASE | re.DOTALL)


@frozen_dataclass
class TypedCommand:
    """What was typed as a command: its name and what came after it."""

    name: str
    argument: str


def parse_command(text: str, commands: Sequence[SlashCommand] = COMMANDS) -> TypedCommand | None:
    """Return the command in a prompt, or None for what is text.

    Text is what begins with `//`, paths, several lines (but for commands that take them), and words
    after a command that takes none.
    """
    if (match := _COMMAND_PATTERN.match(text)) is None:
        return None
    typed = TypedCommand(match[1].lower(), (match[2] or "").strip())
    meant = matching_commands(typed.name, commands)
    if "\n" in typed.argument and not (len(meant) == 1 and meant[0].is_multiline):
        return None
    return None if typed.argument and len(meant) == 1 and not meant[0].argument else typed


def unescape_prompt(text: str, commands: Sequence[SlashCommand] = COMMANDS) -> str:
    """Return a prompt without the slash that kept it from being a command."""
    is_escaped = text.startswith("//") and parse_command(text[1:], commands) is not None
    return text[1:] if is_escaped else text


def matching_commands(name: str, commands: Sequence[SlashCommand] = COMMANDS) -> list[SlashCommand]:
    """Return the commands that begin so; exactly the one, where a name is complete."""
    exact = [command for command in commands if command.name == name]
    return exact or [command for command in commands if command.name.startswith(name)]


def find_command(name: str, commands: Sequence[SlashCommand] = COMMANDS) -> SlashCommand:
    """Return the command that is meant; one that may spend must be written out.

    Raises ConfigError.
    """
    fitting = matching_commands(name, commands)
    if len(fitting) == 1 and (fitting[0].name == name or not fitting[0].may_spend):
        return fitting[0]
    what = "isn't a command"
    if fitting:
        what = "could be several commands" if len(fitting) > 1 else "is not written out"
    near = difflib.get_close_matches(name, [command.name for command in commands], n=1)
    meant = [command.name for command in fitting] or near or [command.name for command in commands]
    listed = ", ".join(f"/{one}" for one in meant)
    hint = f"Did you mean {listed}?" if fitting or near else f"There are: {listed}."
    raise ConfigError(f"/{one_line(name, 30)} {what}.", hint)


PACES = {pace: pace.description for pace in SpendingStyle}
_SCOPES = (Scope.SESSION, Scope.DAY, Scope.MONTH)
_EXAMPLE_HINT = (
    "For example: /budget day 2, /budget month none, /budget policy once, /budget pace frugal."
)


@frozen_dataclass
class SetCeiling:
    """A ceiling is to be `amount` nano-dollars, typed as `text` (None and "": no ceiling)."""

    scope: Scope
    amount: int | None
    text: str


@frozen_dataclass
class SetPolicy:
    """When money may be spent from now on; only in this conversation, if `here`."""

    policy: Policy
    here: bool = False


@frozen_dataclass
class SetPace:
    """How much help must gain from now on."""

    thrift: SpendingStyle


@frozen_dataclass
class Release:
    """The unconfirmed charges are to be taken back."""


BudgetCommand = SetCeiling | SetPolicy | SetPace | Release


def parse_budget(words: str) -> BudgetCommand:
    """Read what was typed after `/budget`. Raises ConfigError."""
    match words.lower().replace("=", " ").split():
        case ["release"]:
            return Release()
        case ["policy", name, *rest] if rest in ([], ["here"]):
            return SetPolicy(_parse_choice(name, "policy", POLICY_NAMES), bool(rest))
        case ["pace", name]:
            return SetPace(_parse_choice(name, "pace", PACES))
        case [scope, amount] if scope in _SCOPES:
            if amount in ("none", "off", "-"):
                return SetCeiling(Scope(scope), None, "")
            return SetCeiling(Scope(scope), parse_usd(amount), amount.removeprefix("$"))
        case ["run", *_]:
            raise ConfigError("A prompt has no ceiling of its own in the app.", _EXAMPLE_HINT)
        case _:
            raise ConfigError(f"/budget {words} is not understood.", _EXAMPLE_HINT)


def _parse_choice(name: str, what: str, known: Mapping[E, str]) -> E:
    """Return the value that is meant. Raises ConfigError."""
    if (chosen := next((one for one in known if one == name), None)) is not None:
        return chosen
    listed = ", ".join(f"{one} ({words})" for one, words in known.items())
    raise ConfigError(f"There is no {what} {name!r}.", f"There are: {listed}.")
