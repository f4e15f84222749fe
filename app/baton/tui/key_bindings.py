"""Every key of the app, by where it works: what the help shows is what the widgets bind.

A person's `[keys]` settings replace keys by the ids given here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from textual.app import App
from textual.binding import Binding, BindingType
from textual.keys import format_key
from textual.screen import Screen

from baton.core.errors import ConfigError


def _binding(
    name: str,
    keys: str,
    action: str,
    words: str,
    more: str = "",
    *,
    show: bool = False,
    first: bool = False,
) -> Binding:
    """Bind keys under an id.

    `words` stand in the footer (if `show`), `more` in the help where they don't say enough; `first`
    is for keys that a widget would otherwise take for itself.
    """
    return Binding(keys, action, words, show=show, id=name, priority=first, tooltip=more or words)


APP: list[BindingType] = [
    _binding("app.menu", "ctrl+p", "menu", "more", "everything there is", show=True, first=True),
    _binding("app.help", "f1", "help", "help", "this help"),
    _binding("app.keys", "question_mark", "keys_here", "keys that work here"),
    _binding("app.answer", "ctrl+g", "answer", "answer", "to the question that waits"),
    _binding("app.interrupt", "ctrl+c", "interrupt", "copy a selection; stop; twice: quit"),
    _binding("app.quit", "ctrl+q", "quit", "quit", first=True),
]
MENU: list[BindingType] = [
    _binding("menu.choose", "enter", "choose_in_menu", "choose", show=True, first=True),
    _binding(
        "menu.complete",
        "tab",
        "complete_in_menu",
        "complete",
        "write it out, and mean it",
        show=True,
        first=True,
    ),
    _binding(
        "menu.close", "escape", "close_menu", "close", "close the menu", show=True, first=True
    ),
    _binding("menu.down", "down", "move_in_menu(1)", "next entry", first=True),
    _binding("menu.up", "up", "move_in_menu(-1)", "entry before", first=True),
    _binding("menu.page_down", "pagedown", "move_in_menu(8)", "eight entries on", first=True),
    _binding("menu.page_up", "pageup", "move_in_menu(-8)", "eight entries back", first=True),
]
"""What works while the menu is open; its letters are typed in the prompt or in its own line."""

CHAT: list[BindingType] = [
    _binding("chat.answer", "tab", "to_question", "choose", "to the question", show=True),
    _binding("chat.messages", "tab", "messages", "messages", "to the messages", show=True),
    _binding("chat.focus", "tab", "next_part", "to the next part of the screen"),
    _binding("chat.default", "escape", "take_default", "leave it", "leave a question", show=True),
    _binding("chat.stop", "escape", "stop", "stop", "stop the answer", show=True),
    _binding(
        "chat.leave_edit", "escape", "leave_edit", "leave it", "leave an edited prompt", show=True
    ),
    _binding(
        "chat.take_back", "escape", "take_back", "take back", "take back what waits", show=True
    ),
    _binding("chat.switch", "escape", "switch", "select", "to the messages, and back", show=True),
    _binding("chat.new", "ctrl+n", "new", "new conversation", first=True),
    _binding("chat.conversations", "ctrl+s", "conversations", "conversations and search"),
    _binding("chat.models", "ctrl+l", "models", "models"),
    _binding("chat.rename", "ctrl+r", "rename", "rename the conversation"),
    _binding("chat.editor", "ctrl+o", "editor", "write in your editor"),
    _binding("chat.side", "ctrl+t", "side", "side bar: show or hide it", first=True),
]
SIDE: list[BindingType] = [
    _binding("side.edit", "enter", "edit", "edit", "take the prompt back to edit it", show=True),
    _binding("side.remove", "d,delete", "remove", "remove", "don't send the prompt", show=True),
]
PROMPT: list[BindingType] = [
    _binding("prompt.send", "enter", "send", "send", show=True, first=True),
    _binding(
        "prompt.line", "ctrl+j,shift+enter", "line", "line", "new line", show=True, first=True
    ),
    _binding("prompt.line_alt", "alt+enter", "line", "new line, in some terminals", first=True),
    _binding("prompt.recall", "up", "recall", "earlier prompts, from the first line"),
    _binding("prompt.forget", "down", "forget", "later prompts, then your draft"),
    _binding("prompt.keys", "question_mark", "keys", "the keys that work here, if empty"),
]
TRANSCRIPT: list[BindingType] = [
    _binding("turn.copy", "y", "screen.copy", "copy", "copy the message", show=True),
    _binding("turn.code", "u", "screen.copy_code", "code", "copy the next code block", show=True),
    _binding("turn.why", "w", "screen.why", "why", "how the answer came about", show=True),
    _binding("turn.timeline", "t", "screen.timeline", "timeline", "when each step was at work"),
    _binding(
        "turn.edit", "e", "screen.edit", "edit", "change the prompt, as a new version", show=True
    ),
    _binding("turn.again", "r", "screen.regenerate", "again", "answer again, as a new version"),
    _binding(
        "turn.go_on", "c", "screen.go_on", "go on", "go on with an interrupted answer", show=True
    ),
    _binding("turn.stronger", "s", "screen.stronger", "ask a stronger worker"),
    _binding("turn.take_back", "x", "screen.take_back", "take back the prompt that waits"),
    _binding("turn.branch_before", "[,left", "screen.branch(-1)", "the version before"),
    _binding("turn.branch_after", "],right", "screen.branch(1)", "the version after"),
    _binding("turn.down", "j,down", "move(1)", "next message"),
    _binding("turn.up", "k,up", "move(-1)", "message before"),
    _binding("turn.top", "g,home", "top", "first message"),
    _binding("turn.end", "G,end", "end", "newest message"),
    _binding("turn.keys", "?", "app.keys_here", "keys", "the keys that work here", show=True),
    _binding("turn.good", "plus", "screen.good", "good", "a good answer; again: unmark", show=True),
    _binding("turn.bad", "minus", "screen.bad", "bad", "a bad answer; again: unmark", show=True),
]
QUESTION: list[BindingType] = [
    _binding("question.choose", "enter", "choose", "choose", show=True),
    _binding("question.next", "right", "step(1)", "next choice"),
    _binding("question.before", "left", "step(-1)", "choice before"),
    _binding("question.down", "down", "move(1)", "next step of a plan, or choice"),
    _binding("question.up", "up", "move(-1)", "step or choice before"),
    _binding("question.read_on", "pagedown", "page(1)", "read on in what would be sent"),
    _binding("question.read_back", "pageup", "page(-1)", "read back in it"),
    _binding("question.unfold", "i", "unfold", "Baton's own instructions"),
]
_KEYS_HERE = _binding("app.keys", "question_mark", "app.keys_here", "keys that work here")
PLAN: list[BindingType] = [
    _binding("plan.worker", "w", "choose_worker", "worker", "who does the step", show=True),
    _binding("plan.edit", "e", "edit_step", "change", "change what the step does", show=True),
    _binding("plan.drop", "d,delete", "drop_step", "drop", "leave the step out", show=True),
]
_PLAN_LEAVE = _binding(
    "plan.leave", "escape", "leave", "leave it", "leave a step as it is", show=True
)
PLAN_WORKER: list[BindingType] = [
    _binding("plan.choose", "enter", "select", "choose", "let this worker do it", show=True),
    _PLAN_LEAVE,
]
PLAN_TEXT: list[BindingType] = [
    _binding("plan.save", "enter", "save", "save", "let the step do that", show=True, first=True),
    _binding("plan.line", "ctrl+j,shift+enter", "line", "line", "new line", show=True, first=True),
    _PLAN_LEAVE,
]
_ANSWER = _binding("app.answer", "ctrl+g", "app.answer", "answer", show=True, first=True)
ABOVE: list[BindingType] = [
    _binding("app.help", "f1", "app.help", "help", "this help"),
    _KEYS_HERE,
    _binding("app.interrupt", "ctrl+c", "app.interrupt", "stop; twice: quit"),
    _ANSWER,
]
"""What works on a screen above the conversation, too, where the app's own keys don't reach."""

OVERLAY: list[BindingType] = [
    _binding("screen.close", "escape", "close", "back", show=True),
]
RENAME: list[BindingType] = [
    _binding(
        "rename.rename", "enter", "rename", "rename", "give it that title", show=True, first=True
    ),
    *OVERLAY,
]
WORKFLOW: list[BindingType] = [
    _binding(
        "workflow.open", "enter", "open", "read it", "read all of a step", show=True, first=True
    ),
    _binding(
        "workflow.egress", "e", "egress", "what was sent", "see what left this machine", show=True
    ),
    _binding("workflow.down", "j,down", "move(1)", "next step", first=True),
    _binding("workflow.up", "k,up", "move(-1)", "step before", first=True),
    _binding("workflow.read_on", "pagedown", "scroll(1)", "read on about the step", first=True),
    _binding("workflow.read_back", "pageup", "scroll(-1)", "read back", first=True),
    _binding("workflow.page", "right", "page(1)", "page", "the next page", show=True, first=True),
    _binding("workflow.page_before", "left", "page(-1)", "the page before", first=True),
    _binding("workflow.swap", "]", "swap(1)", "other text", "compare another text", show=True),
    _binding("workflow.swap_before", "[", "swap(-1)", "compare the text before"),
    *OVERLAY,
    _binding("workflow.close", "w", "close", "back"),
]
STEP: list[BindingType] = [
    *OVERLAY,
    _binding("step.close", "enter,w", "close", "back to the steps"),
]
MONEY: list[BindingType] = [
    _binding(
        "money.release", "r", "release", "release", "release an unconfirmed charge", show=True
    ),
    _binding(
        "money.thaw", "t", "thaw", "lift the freeze", "let cloud workers be asked again", show=True
    ),
    _binding("money.ceiling", "c", "ceiling", "ceiling", "set the ceiling for a day", show=True),
    _binding("money.policy", "w", "policy", "when", "choose when to spend", show=True),
    _binding("money.pace", "p", "pace", "pace", "spend more freely, or less", show=True),
    _binding("money.egress", "e", "egress", "sent", "see what left this machine", show=True),
    *OVERLAY,
]
CEILING: list[BindingType] = [
    _binding("ceiling.set", "enter", "set", "set it", "set this ceiling", show=True, first=True),
    *OVERLAY,
]
EGRESS: list[BindingType] = [
    _binding(
        "egress.open",
        "enter",
        "open",
        "show it",
        "show exactly what was sent",
        show=True,
        first=True,
    ),
    *OVERLAY,
]
SERVE: list[BindingType] = [
    _binding("serve.copy", "c", "copy", "copy the token", show=True),
    _binding("serve.stop", "x", "stop", "stop serving", show=True),
    *OVERLAY,
]
CONNECT: list[BindingType] = [
    _binding(
        "connect.next", "enter", "go_on", "go on", "next line; then connect", show=True, first=True
    ),
    *OVERLAY,
]
MODELS: list[BindingType] = [
    _binding("models.choose", "enter", "choose", "answer with it", show=True, first=True),
    _binding("models.fetch", "enter", "fetch", "download", "download it", show=True, first=True),
    _binding(
        "models.link",
        "enter",
        "link",
        "use it",
        "use another program's file",
        show=True,
        first=True,
    ),
    _binding("models.pause", "p", "pause", "pause", "pause a download", show=True),
    _binding("models.go_on", "p", "go_on", "go on", "go on with a download", show=True),
    _binding("models.role", "r", "role", "role", "choose what it does", show=True),
    _binding("models.verify", "v", "verify", "verify", "read its file through", show=True),
    _binding(
        "models.remove", "d,delete", "remove", "remove", "remove it from this machine", show=True
    ),
    _binding("models.whole", "a", "whole", "all", "all of the catalogue, or what fits", show=True),
    *OVERLAY,
]
CONVERSATIONS: list[BindingType] = [
    _binding("conversations.open", "enter", "open", "open", show=True, first=True),
    _binding("conversations.rename", "ctrl+r", "rename", "rename", show=True, first=True),
    _binding("conversations.delete", "ctrl+d", "delete", "delete", show=True, first=True),
    _binding(
        "conversations.undo", "ctrl+z", "undo", "undo", "undo deleting", show=True, first=True
    ),
    _binding("conversations.export", "ctrl+e", "export", "export", "save as Markdown", first=True),
    _binding("conversations.down", "down", "move(1)", "next", first=True),
    _binding("conversations.up", "up", "move(-1)", "before", first=True),
    _binding("conversations.page_down", "pagedown", "page(1)", "a page on", first=True),
    _binding("conversations.page_up", "pageup", "page(-1)", "a page back", first=True),
    *OVERLAY,
]

HELP: list[BindingType] = [
    _binding("help.down", "down", "scroll(1)", "down a line", first=True),
    _binding("help.up", "up", "scroll(-1)", "up a line", first=True),
    _binding("help.page_down", "pagedown", "page(1)", "down a page", first=True),
    _binding("help.page_up", "pageup", "page(-1)", "up a page", first=True),
    *OVERLAY,
]

GROUPS: dict[str, list[BindingType]] = {
    "Everywhere": APP,
    "Conversation": CHAT,
    "The side bar (Tab, Tab to what waits)": SIDE,
    "The menu": MENU,
    "Writing a prompt": PROMPT,
    "A question": QUESTION,
    "A plan (Tab to its choices)": PLAN,
    "A step's worker": PLAN_WORKER,
    "A step's instruction": PLAN_TEXT,
    "Messages (Tab or Esc from the prompt)": TRANSCRIPT,
    "Conversations": CONVERSATIONS,
    "Its title": RENAME,
    "Models": MODELS,
    "Workflow": WORKFLOW,
    "A step's text": STEP,
    "Money": MONEY,
    "The ceiling for a day": CEILING,
    "What left this machine": EGRESS,
    "Other programs": SERVE,
    "A cloud provider": CONNECT,
    "This help": HELP,
}
"""What the help shows, in this order."""

_GROUPED = [binding for group in GROUPS.values() for binding in group]
BY_ID = {b.id: b for b in _GROUPED if isinstance(b, Binding) and b.id is not None}
_LAST_GROUPS = ("chat.", "screen.", "app.")
_NEEDED = {
    "app.answer": 0,
    "chat.stop": 1,
    "chat.messages": 3,
    "plan.worker": 3,
    "plan.edit": 3,
    "plan.drop": 3,
    "turn.go_on": 4,
    "menu.complete": 4,
    "app.menu": 5,
    "chat.answer": 6,
    "chat.switch": 6,
}


def active_bindings(screen: Screen[Any]) -> list[Binding]:
    """Return what works on a screen now, in the order of the footer."""
    active = [one.binding for one in screen.active_bindings.values() if one.enabled]
    by_id = {binding.id: binding for binding in active if binding.id in BY_ID}
    return sorted(by_id.values(), key=footer_rank)


def footer_rank(binding: Binding) -> tuple[int, int]:
    """Return the place in the footer: a waiting question, what can be done, ways out."""
    name = binding.id or ""
    if name == "app.answer":
        return 0, -1
    place = next((place for place, part in enumerate(_LAST_GROUPS, 1) if name.startswith(part)), 0)
    return place, list(BY_ID).index(name) if name in BY_ID else 0


def footer_need(binding: Binding) -> int:
    """Return how much a key is needed in a footer that is too narrow for all; 0 is the most.

    A waiting question, what stops or closes, what Enter does, the way to everything there is.
    """
    name = binding.id or ""
    default = BY_ID[name].key if name in BY_ID else ""
    return _NEEDED.get(name, {"escape": 2, "enter": 4}.get(default, 7))


def configured_keys(app: App[Any], name: str) -> str:
    """Write all keys of the binding with this id for people, as the person has set them."""
    return binding_keys(BY_ID[name], app._keymap)  # Textual has no public way to read it


def binding_keys(binding: Binding, keymap: Mapping[str, str]) -> str:
    """Write all keys of a binding for people."""
    return " ".join(key_text(key) for key in keymap.get(binding.id or "", binding.key).split(","))


def check_keymap(keys: Mapping[str, str]) -> None:
    """Raise ConfigError for an unknown id, and for a letter that no prompt could hold any more."""
    for name, value in keys.items():
        if name not in BY_ID:
            near = difflib.get_close_matches(name, BY_ID, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else "`F1` in the app lists the keys."
            raise ConfigError(f"There is no key {name!r} (in [keys]).", hint)
        letter = next((key for key in value.split(",") if len(key) == 1 or key == "space"), "")
        if letter and BY_ID[name].priority and name.startswith(("app.", "chat.", "prompt.")):
            raise ConfigError(
                f"With {letter!r} for {name!r} (in [keys]) no prompt could hold that letter.",
                "Choose a function key, or one with Ctrl or Alt.",
            )


_KEY_NAMES = {
    "escape": "Esc",
    "ctrl": "Ctrl",
    "shift": "Shift",
    "enter": "Enter",
    "tab": "Tab",
    "pagedown": "PgDn",
    "pageup": "PgUp",
}


def key_text(key: str) -> str:
    """Write a key for people: `ctrl+j` as Ctrl+J, `question_mark` as ?."""
    *modifiers, last = key.split("+") if key != "+" else ("plus",)
    name = _KEY_NAMES.get(last) or format_key(last)
    if modifiers or len(name) > 1:
        name = name[0].upper() + name[1:]
    return "+".join([*(_KEY_NAMES.get(word, word.title()) for word in modifiers), name])
