"""The one menu: what it shows for the letters in the prompt or its own line, and what is chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from textual.widget import Widget

from baton.core.errors import ConfigError
from baton.core.ledger_types import Policy, SpendingStyle
from baton.core.messages import Card
from baton.core.sanitiser import one_line
from baton.presentation.chat_texts import MODES
from baton.presentation.words import POLICY_NAMES, price_text
from baton.tui import key_bindings, themes
from baton.tui.chat.context import ChatContext
from baton.tui.chat.input import InputController
from baton.tui.menu_entries import (
    MenuEntry,
    MenuWord,
    all_entries,
    command_entries,
    folder_paths,
    is_outside,
    mention_of,
    message_entries,
    ranked_entries,
    ranked_paths,
    tree_paths,
    typed_word,
)
from baton.tui.slash_commands import COMMANDS
from baton.tui.widgets.menu_view import SPENDS_TEXT, MenuView, Rank
from baton.tui.widgets.turn_view import TurnView

MAX_FILES = 50
"""How many of the files that fit can be gone through."""

CHOICES = {"model": "Who answers", "mode": "Mode", "strategy": "Strategy", "theme": "Theme"}
"""The commands whose arguments the menu offers, and what it is then called."""

BUDGET_CHOICES = {"policy": "When to spend", "pace": "Pace of spending"}
"""What `/budget` sets to one of a few values, and what the menu is then called."""

EVERYTHING, COMMAND, FILE, MESSAGE = "", "/", "@", "message"
"""What else the menu is opened for."""


class MenuController:
    """Opens the menu, keeps it up with what is typed, and has done what is chosen there."""

    def __init__(self, context: ChatContext, commands: InputController) -> None:
        self._context = context
        self._services = context.services
        self._menu: MenuView = context.menu
        self._commands = commands
        self._kind = EVERYTHING
        self._dismissed: str | None = None
        self._recent: list[str] = []
        self._tree: list[str] = []
        self._files: tuple[str, list[MenuEntry]] = ("", [])
        self._from: tuple[Widget | None, TurnView | None] = (None, None)
        self._theme_before = ""

    # Opening

    def open_all(self) -> None:
        """Show everything there is, in a line of its own; opened already, close it."""
        if self._menu.is_open and self._menu.has_line:
            self.dismiss()
        else:
            self.look_up("")

    def look_up(self, text: str) -> None:
        """Show what there is for a word."""
        self._open_line(EVERYTHING, "Everything", all_entries(), text=text)

    async def open_choices(self, kind: str) -> None:
        """Show what a command can be given."""
        entries = await asyncio.to_thread(self._choices, kind)
        self._open_line(
            kind, {**CHOICES, **BUDGET_CHOICES}[kind], entries, current=self._current(kind)
        )

    def find(self, words: str = "") -> None:
        """Show the messages of the conversation that hold all the words, the newest first."""
        context = self._context
        entries = message_entries(context.transcript.turns, words, context.roster)
        if entries:
            self._open_line(MESSAGE, f"Messages with {one_line(words, 40)}", entries)
        elif words.strip():
            context.footer.say(f"no message here has {one_line(words, 40)}")
        else:
            context.footer.say("/find and what it is to find")

    def _open_line(
        self,
        kind: str,
        title: str,
        entries: Sequence[MenuEntry],
        *,
        current: str = "",
        text: str = "",
    ) -> None:
        screen, menu = self._context.screen, self._menu
        self._close_preview()
        if not (menu.is_open and menu.has_line):
            self._from = (screen.focused, self._context.transcript.selected)
        self._kind = kind
        rank = self._ranking(entries, keep_order=kind != EVERYTHING)
        menu.open(
            title,
            rank,
            text,
            room=self._room,
            has_line=True,
            has_groups=kind == EVERYTHING,
            current=current,
        )
        screen.set_focus(menu.line)  # at once, so that the next key is typed there
        screen.refresh_bindings()

    def _ranking(self, entries: Sequence[MenuEntry], *, keep_order: bool = False) -> Rank:
        """Return what ranks these entries, with their keys as the user has set them."""
        app = self._context.screen.app
        is_on, current = self._is_cloud_on, self._current(self._kind)
        shown = [
            replace(
                entry,
                key=key_bindings.configured_keys(app, entry.binding) if entry.binding else "",
                may_spend=entry.may_spend and is_on and entry.id != current,
            )
            for entry in entries
        ]
        recent = () if keep_order else tuple(self._recent)
        return lambda text: ranked_entries(shown, text, recent)

    @property
    def _is_cloud_on(self) -> bool:
        terms = self._services.orchestra.terms
        return any(terms.ceilings.values()) or any(
            card.remote for card in self._services.orchestra.roster
        )

    def _room(self) -> int:
        """Return the lines between the header and the prompt, but for one of the conversation."""
        screen, context = self._context.screen, self._context
        used = context.composer.outer_size.height + context.header.outer_size.height
        return screen.size.height - used - context.footer.outer_size.height - 1

    # What is typed in the prompt

    def _word(self) -> MenuWord | None:
        prompt = self._context.composer.prompt
        if prompt.is_recalling:
            return None
        return typed_word(prompt.text, prompt.before_cursor, tuple(CHOICES))

    def follow_prompt(self) -> None:
        """Show what the word before the cursor can become, or nothing."""
        word, menu = self._word(), self._menu
        if menu.is_open and menu.has_line:
            return
        if word is None or word.kind != self._dismissed:
            self._dismissed = None
        if word is None or self._dismissed is not None:
            self.close()
        elif menu.is_open and word.kind == self._kind and word.kind != FILE:
            menu.type(word.text)
            self._close_if_empty()
        else:
            work = partial(self._open_typed, word)
            self._context.start(work, "menu", exclusive=True)

    async def _open_typed(self, word: MenuWord) -> None:
        """Look up what the word can become, and show it if it is still being typed."""
        entries: list[MenuEntry] = []
        if word.kind == FILE:
            if not (self._menu.is_open and self._kind == FILE):
                self._tree = await asyncio.to_thread(tree_paths, Path())
            self._files = (word.text, await asyncio.to_thread(self._find_files, word.text))
        elif word.kind != COMMAND:
            entries = await asyncio.to_thread(self._choices, word.kind)
        now = self._word()
        if now is None or now.kind != word.kind or (self._menu.is_open and self._menu.has_line):
            return
        if self._menu.is_open and self._kind == FILE == now.kind:
            self._menu.type(now.text)
        else:
            self._show_typed(now, entries)
        self._close_if_empty()

    def _show_typed(self, word: MenuWord, entries: Sequence[MenuEntry]) -> None:
        self._kind = word.kind
        rank: Rank
        if word.kind == FILE:
            title, rank = "Files", self._rank_files
        elif word.kind == COMMAND:
            title, rank = "Commands", self._ranking(command_entries(COMMANDS))
        else:
            title, rank = CHOICES[word.kind], self._ranking(entries, keep_order=True)
        current = "" if word.text else self._current(word.kind)
        self._menu.open(title, rank, word.text, room=self._room, has_line=False, current=current)
        self._context.screen.refresh_bindings()

    def _close_if_empty(self) -> None:
        if self._menu.entry is None:
            self.close()

    # Choosing

    def choose(self) -> bool:
        """Take what the cursor is on, and return whether Enter was for the menu."""
        menu = self._menu
        if not menu.is_open:
            return False
        word = self._catch_up()
        if word is None and not menu.has_line:
            return False
        entry = menu.entry
        if entry is None:
            return menu.has_line
        if word is not None and not menu.is_deliberate and _is_complete(word, entry):
            self.close()
            return False
        if entry.may_spend and not menu.is_deliberate:
            self._context.footer.say(SPENDS_TEXT)
        else:
            self.take(entry)
        return True

    def _catch_up(self) -> MenuWord | None:
        """Show what fits the letters that are typed by now; they may be quicker than the screen."""
        menu = self._menu
        if menu.has_line:
            menu.type(menu.line.value)
            return None
        word = self._word()
        if word is None or word.kind != self._kind:
            self.close()
            return None
        menu.type(word.text)
        return word

    def take(self, entry: MenuEntry) -> None:
        """Write a file into the prompt, or have done what an entry is for."""
        prompt, has_line = self._context.composer.prompt, self._menu.has_line
        if self._kind == FILE:
            self._write_file(entry)
            return
        self._recent = [entry.id, *(id for id in self._recent if id != entry.id)]
        self._theme_before = ""
        if not has_line:
            prompt.put("")
            prompt.forget()
        self._leave()
        self._context.screen.call_later(self._commands.run_action, entry.action)

    def complete(self) -> None:
        """Write what the cursor is on where it is being typed; what it does is meant then."""
        menu = self._menu
        if menu.is_open and (menu.has_line or self._catch_up() is not None):
            entry = menu.entry
            if entry is None:
                return
            if menu.has_line:
                menu.complete_line()
            elif self._kind == FILE:
                self._write_file(entry)
            else:
                self._context.composer.prompt.put(entry.completion)
                menu.type(entry.completion.strip().removeprefix("/"))
                menu.confirm()

    def _write_file(self, entry: MenuEntry) -> None:
        """Write a path in the place of what was typed of it; a file's is complete."""
        word, prompt = self._word(), self._context.composer.prompt
        if word is not None:
            is_folder = entry.name.endswith("/")
            prompt.replace_before_cursor(word.length, entry.completion + ("" if is_folder else " "))
            if not is_folder:
                self.close()

    def dismiss(self) -> None:
        """Close the menu without choosing; it stays closed for the word being typed."""
        word = self._word()
        self._dismissed = None if self._menu.has_line or word is None else word.kind
        self._leave()

    def _leave(self) -> None:
        """Close the menu, and go back to where the user was."""
        has_line, (focused, selected) = self._menu.has_line, self._from
        screen, transcript = self._context.screen, self._context.transcript
        self._menu.has_line = False  # so that the focus that changes now closes nothing twice
        self.close()
        if not has_line:
            return
        if focused is None or not focused.is_attached:
            focused = self._context.composer.prompt
        screen.set_focus(focused)
        if focused is transcript and selected is not None and selected in transcript.views:
            transcript.select(selected)

    def close(self) -> None:
        """Close the menu where the user is by now."""
        if self._menu.is_open:
            self._menu.close()
            self._close_preview()
            self._context.screen.refresh_bindings()

    # Files

    def _find_files(self, typed: str) -> list[MenuEntry]:
        """Return the files that fit: in the working folder, or in the folder that was typed."""
        if is_outside(typed):
            paths = folder_paths(typed, MAX_FILES)
        else:
            paths = ranked_paths(self._tree, typed, MAX_FILES)
        return [MenuEntry(path, path, "", completion=mention_of(path)) for path in paths]

    def _rank_files(self, typed: str) -> list[MenuEntry]:
        if self._files[0] != typed:
            self._files = (typed, self._find_files(typed))
        return self._files[1]

    # Choices

    def _choices(self, kind: str) -> list[MenuEntry]:
        """Return what a command can be given."""
        match kind:
            case "mode":
                return [
                    _choice(kind, name, text, spends=name != "local")
                    for name, text in MODES.items()
                ]
            case "strategy":
                return self._strategies()
            case "policy":
                may_spend = (Policy.ONCE, Policy.BUDGET)
                return [
                    _choice("budget", policy, text, before="policy ", spends=policy in may_spend)
                    for policy, text in POLICY_NAMES.items()
                ]
            case "pace":
                return [
                    _choice("budget", pace, pace.description, before="pace ")
                    for pace in SpendingStyle
                ]
            case "theme":
                return [_choice(kind, name, themes.description(name)) for name in themes.names()]
            case _:
                cards = [card for card in self._services.orchestra.roster if not card.is_tool]
                sentence = "See, download and remove models ..."
                more = MenuEntry("models", "All models", sentence, "models", binding="chat.models")
                return [*map(_worker, cards), more]

    def _strategies(self) -> list[MenuEntry]:
        from baton.core.strategies import STRATEGIES

        workflows = sorted(self._services.orchestra.services.templates())
        words = {"auto": "As the mode says."}
        words |= {name: entry.help for name, entry in STRATEGIES.items()}
        words |= dict.fromkeys(workflows, "A workflow.")
        return [
            _choice("strategy", name, sentence, spends=True) for name, sentence in words.items()
        ]

    def _current(self, kind: str) -> str:
        """Return the id of what is chosen now."""
        app, context = self._context.screen.app, self._context
        now = {
            "mode": self._services.orchestra.terms.mode,
            "strategy": context.strategy or "auto",
            "theme": app.theme,
            "model": context.worker,
            "policy": self._services.orchestra.terms.policy,
            "pace": self._services.orchestra.services.pacer.thrift,
        }
        command = "budget" if kind in BUDGET_CHOICES else kind
        return f"{command}:{now[kind]}" if kind in now else ""

    # Themes

    def preview(self, entry: MenuEntry | None) -> None:
        """Show the theme that the cursor is on, until the menu is closed."""
        if self._kind == "theme" and self._menu.is_open and entry is not None:
            self._theme_before = self._theme_before or self._context.screen.app.theme
            themes.show_theme(self._context.screen.app, entry.name)

    def _close_preview(self) -> None:
        before, self._theme_before = self._theme_before, ""
        if before:
            themes.show_theme(self._context.screen.app, before)

    async def set_theme(self, name: str = "") -> None:
        """Show a theme from now on and remember it in the settings; without a name list them."""
        from baton.platform.settings import write_settings

        if not name.strip():
            await self.open_choices("theme")
            return
        theme = name.strip().lower().replace(" ", "-")
        if theme not in themes.names():
            raise ConfigError(f"There is no theme {theme[:30]!r}.", "/theme alone lists them.")
        themes.show_theme(self._context.screen.app, theme)
        changes = {"screen": {"theme": theme}}
        await asyncio.to_thread(write_settings, self._services.config, changes)
        self._context.footer.say(f"theme: {theme.replace('-', ' ')}")


def _is_complete(word: MenuWord, entry: MenuEntry) -> bool:
    """Whether an entry was typed as a whole, so that Enter sends what stands in the prompt."""
    if word.kind == FILE:
        return entry.name == word.text
    typed = word.text.lower() if word.kind == COMMAND else f"{word.kind} {word.text.lower()}"
    return entry.completion.strip() == f"/{typed}"


def _choice(
    kind: str, name: str, sentence: str, *, before: str = "", spends: bool = False
) -> MenuEntry:
    return MenuEntry(
        f"{kind}:{name}",
        name,
        sentence,
        f"{kind}({before + name!r})",
        completion=f"/{kind} {before}{name}",
        may_spend=spends,
    )


def _worker(card: Card) -> MenuEntry:
    sentence = f"{card.name} · {card.place.value} · {price_text(card)}"
    entry = _choice("model", card.id, sentence, spends=card.remote or not card.is_free)
    return replace(entry, synonyms=(card.place.value, card.provider))
