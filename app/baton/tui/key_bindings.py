"""Every key of the app, by where it works: what the help shows is what the widgets bind.

A user's `[keys]` settings replace keys by the ids given here.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from textual.app import App
from textual.binding import Binding, BindingType
from textual.keys import format_key
from textual.screen import Screen

from baton.core.errors import ConfigError


def _key(
    name: str, keys: str, action: str, words: str, more: str = "", *, first: bool = False
) -> Binding:
    """Bind keys under an id.

    `words` say what they do, `more` in the help where that isn't enough; `first` is for keys that
    a widget would otherwise take for itself.
    """
    return Binding(keys, action, words, show=False, id=name, priority=first, tooltip=more or words)


def _footer_key(*texts: str, first: bool = False) -> Binding:
    """Bind keys as `_key` does, and show them in the footer."""
    return replace(_key(*texts, first=first), show=True)


APP: list[BindingType] = [
    _footer_key("app.menu", "ctrl+p", "menu", "more", "everything there is", first=True),
    _key("app.help", "f1", "help", "help", "this help"),
    _key("app.keys", "question_mark", "keys_here", "keys that work here"),
    _key("app.answer", "ctrl+g", "answer", "answer", "to the question that waits"),
    _key("app.interrupt", "ctrl+c", "interrupt", "copy a selection; stop; twice: quit"),
    _key("app.quit", "ctrl+q", "quit", "quit", first=True),
]
MENU: list[BindingType] = [
    _footer_key("menu.choose", "enter", "choose_in_menu", "choose", first=True),
    _footer_key(
        "menu.complete",
        "tab",
        "complete_in_menu",
        "complete",
        "complete the name",
        first=True,
    ),
    _footer_key("menu.close", "escape", "close_menu", "close", "close the menu", first=True),
    _key("menu.down", "down", "move_in_menu(1)", "next entry", first=True),
    _key("menu.up", "up", "move_in_menu(-1)", "entry before", first=True),
    _key("menu.page_down", "pagedown", "move_in_menu(8)", "eight entries on", first=True),
    _key("menu.page_up", "pageup", "move_in_menu(-8)", "eight entries back", first=True),
]
"""What works while the menu is open; its letters are typed in the prompt or in its own line."""

CHAT: list[BindingType] = [
    _footer_key("chat.answer", "tab", "to_question", "choose", "to the question"),
    _footer_key("chat.messages", "tab", "messages", "messages", "to the messages"),
    _key("chat.focus", "tab", "next_part", "to the next part of the screen"),
    _footer_key("chat.default", "escape", "take_default", "leave it", "leave a question"),
    _footer_key("chat.stop", "escape", "stop", "stop", "stop the answer"),
    _footer_key("chat.leave_edit", "escape", "leave_edit", "leave it", "leave an edited prompt"),
    _footer_key("chat.take_back", "escape", "take_back", "take back", "take back what waits"),
    _footer_key("chat.switch", "escape", "switch", "select", "to the messages, and back"),
    _key("chat.new", "ctrl+n", "new", "new conversation", first=True),
    _key("chat.conversations", "ctrl+s", "conversations", "conversations and search"),
    _key("chat.models", "ctrl+l", "models", "models"),
    _key("chat.rename", "ctrl+r", "rename", "rename the conversation"),
    _key("chat.editor", "ctrl+o", "editor", "write in your editor"),
    _key("chat.side", "ctrl+t", "side", "side bar: show or hide it", first=True),
]
"""Of several actions on one key, Esc or Tab, the first that is possible is done."""
SIDE: list[BindingType] = [
    _footer_key("side.edit", "enter", "edit", "edit", "take the prompt back to edit it"),
    _footer_key("side.remove", "d,delete", "remove", "remove", "don't send the prompt"),
]
PROMPT: list[BindingType] = [
    _footer_key("prompt.send", "enter", "send", "send", first=True),
    _footer_key("prompt.line", "ctrl+j,shift+enter", "line", "line", "new line", first=True),
    _key("prompt.line_alt", "alt+enter", "line", "new line, in some terminals", first=True),
    _key("prompt.recall", "up", "recall", "earlier prompts, from the first line"),
    _key("prompt.forget", "down", "forget", "later prompts, then your draft"),
    _key("prompt.keys", "question_mark", "keys", "the keys that work here, if empty"),
]
TRANSCRIPT: list[BindingType] = [
    _footer_key("turn.copy", "y", "screen.copy", "copy", "copy the message"),
    _footer_key("turn.code", "u", "screen.copy_code", "code", "copy the next code block"),
    _footer_key("turn.why", "w", "screen.why", "why", "how the answer came about"),
    _key("turn.timeline", "t", "screen.timeline", "timeline", "when each step was at work"),
    _footer_key("turn.edit", "e", "screen.edit", "edit", "change the prompt, as a new version"),
    _key("turn.again", "r", "screen.regenerate", "again", "answer again, as a new version"),
    _footer_key("turn.go_on", "c", "screen.go_on", "continue", "continue an interrupted answer"),
    _key("turn.stronger", "s", "screen.stronger", "ask a stronger worker"),
    _key("turn.take_back", "x", "screen.take_back", "take back the prompt that waits"),
    _key("turn.branch_before", "[,left", "screen.branch(-1)", "the version before"),
    _key("turn.branch_after", "],right", "screen.branch(1)", "the version after"),
    _key("turn.down", "j,down", "move(1)", "next message"),
    _key("turn.up", "k,up", "move(-1)", "message before"),
    _key("turn.top", "g,home", "top", "first message"),
    _key("turn.end", "G,end", "end", "newest message"),
    _footer_key("turn.keys", "?", "app.keys_here", "keys", "the keys that work here"),
    _footer_key("turn.good", "plus", "screen.good", "good", "a good answer; again: unmark"),
    _footer_key("turn.bad", "minus", "screen.bad", "bad", "a bad answer; again: unmark"),
]
QUESTION: list[BindingType] = [
    _footer_key("question.choose", "enter", "choose", "choose"),
    _key("question.next", "right", "step(1)", "next choice"),
    _key("question.before", "left", "step(-1)", "choice before"),
    _key("question.down", "down", "move(1)", "next step of a plan, or choice"),
    _key("question.up", "up", "move(-1)", "step or choice before"),
    _key("question.read_on", "pagedown", "page(1)", "read on in what would be sent"),
    _key("question.read_back", "pageup", "page(-1)", "read back in it"),
    _key("question.unfold", "i", "unfold", "Baton's own instructions"),
]
_KEYS_HERE = _key("app.keys", "question_mark", "app.keys_here", "keys that work here")
PLAN: list[BindingType] = [
    _footer_key("plan.worker", "w", "choose_worker", "worker", "who does the step"),
    _footer_key("plan.edit", "e", "edit_step", "change", "change what the step does"),
    _footer_key("plan.drop", "d,delete", "drop_step", "drop", "leave the step out"),
]
_PLAN_LEAVE = _footer_key("plan.leave", "escape", "leave", "leave it", "leave a step as it is")
PLAN_WORKER: list[BindingType] = [
    _footer_key("plan.choose", "enter", "select", "choose", "let this worker do it"),
    _PLAN_LEAVE,
]
PLAN_TEXT: list[BindingType] = [
    _footer_key("plan.save", "enter", "save", "save", "let the step do that", first=True),
    _footer_key("plan.line", "ctrl+j,shift+enter", "line", "line", "new line", first=True),
    _PLAN_LEAVE,
]
_ANSWER = _footer_key("app.answer", "ctrl+g", "app.answer", "answer", first=True)
ABOVE: list[BindingType] = [
    _key("app.help", "f1", "app.help", "help", "this help"),
    _KEYS_HERE,
    _key("app.interrupt", "ctrl+c", "app.interrupt", "stop; twice: quit"),
    _ANSWER,
]
"""What works on a screen above the conversation, too, where the app's own keys don't reach."""

OVERLAY: list[BindingType] = [
    _footer_key("screen.close", "escape", "close", "back"),
]
RENAME: list[BindingType] = [
    _footer_key("rename.rename", "enter", "rename", "rename", "give it that title", first=True),
    *OVERLAY,
]
WORKFLOW: list[BindingType] = [
    _footer_key("workflow.open", "enter", "open", "read it", "read all of a step", first=True),
    _footer_key("workflow.egress", "e", "egress", "what was sent", "see what left this machine"),
    _key("workflow.down", "j,down", "move(1)", "next step", first=True),
    _key("workflow.up", "k,up", "move(-1)", "step before", first=True),
    _key("workflow.read_on", "pagedown", "scroll(1)", "read on about the step", first=True),
    _key("workflow.read_back", "pageup", "scroll(-1)", "read back", first=True),
    _footer_key("workflow.page", "right", "page(1)", "page", "the next page", first=True),
    _key("workflow.page_before", "left", "page(-1)", "the page before", first=True),
    _footer_key("workflow.swap", "]", "swap(1)", "other text", "compare another text"),
    _key("workflow.swap_before", "[", "swap(-1)", "compare the text before"),
    *OVERLAY,
    _key("workflow.close", "w", "close", "back"),
]
STEP: list[BindingType] = [
    *OVERLAY,
    _key("step.close", "enter,w", "close", "back to the steps"),
]
MONEY: list[BindingType] = [
    _footer_key("money.release", "r", "release", "release", "release an unconfirmed charge"),
    _footer_key("money.thaw", "t", "thaw", "lift the freeze", "let cloud workers be asked again"),
    _footer_key("money.ceiling", "c", "ceiling", "ceiling", "set the ceiling for a day"),
    _footer_key("money.policy", "w", "policy", "when", "choose when to spend"),
    _footer_key("money.pace", "p", "pace", "pace", "spend more freely, or less"),
    _footer_key("money.egress", "e", "egress", "sent", "see what left this machine"),
    *OVERLAY,
]
CEILING: list[BindingType] = [
    _footer_key("ceiling.set", "enter", "set", "set it", "set this ceiling", first=True),
    *OVERLAY,
]
EGRESS: list[BindingType] = [
    _footer_key(
        "egress.open", "enter", "open", "show it", "show exactly what was sent", first=True
    ),
    *OVERLAY,
]
SERVE: list[BindingType] = [
    _footer_key("serve.copy", "c", "copy", "copy the token"),
    _footer_key("serve.stop", "x", "stop", "stop serving"),
    *OVERLAY,
]
CONNECT: list[BindingType] = [
    _footer_key("connect.next", "enter", "go_on", "next", "next line; then connect", first=True),
    *OVERLAY,
]
MODELS: list[BindingType] = [
    _footer_key("models.choose", "enter", "choose", "answer with it", first=True),
    _footer_key("models.fetch", "enter", "fetch", "download", "download it", first=True),
    _footer_key("models.link", "enter", "link", "use it", "use another program's file", first=True),
    _footer_key("models.pause", "p", "pause", "pause", "pause a download"),
    _footer_key("models.go_on", "p", "go_on", "resume", "resume a download"),
    _footer_key("models.role", "r", "role", "role", "choose what it does"),
    _footer_key("models.verify", "v", "verify", "verify", "read its file through"),
    _footer_key("models.remove", "d,delete", "remove", "remove", "remove it from this machine"),
    _footer_key("models.whole", "a", "whole", "all", "all of the catalogue, or what fits"),
    *OVERLAY,
]
CONVERSATIONS: list[BindingType] = [
    _footer_key("conversations.open", "enter", "open", "open", first=True),
    _footer_key("conversations.rename", "ctrl+r", "rename", "rename", first=True),
    _footer_key("conversations.delete", "ctrl+d", "delete", "delete", first=True),
    _footer_key("conversations.undo", "ctrl+z", "undo", "undo", "undo deleting", first=True),
    _key("conversations.export", "ctrl+e", "export", "export", "save as Markdown", first=True),
    _key("conversations.down", "down", "move(1)", "next", first=True),
    _key("conversations.up", "up", "move(-1)", "before", first=True),
    _key("conversations.page_down", "pagedown", "page(1)", "a page on", first=True),
    _key("conversations.page_up", "pageup", "page(-1)", "a page back", first=True),
    *OVERLAY,
]

HELP: list[BindingType] = [
    _key("help.down", "down", "scroll(1)", "down a line", first=True),
    _key("help.up", "up", "scroll(-1)", "up a line", first=True),
    _key("help.page_down", "pagedown", "page(1)", "down a page", first=True),
    _key("help.page_up", "pageup", "page(-1)", "up a page", first=True),
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
    """Write all keys of the binding with this id for people, as the user has set them."""
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
