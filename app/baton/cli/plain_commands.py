"""The `/` commands of `baton --plain`: the app's where they mean the same, and Baton's own."""

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial

from baton.cli.options import strategy_helps
from baton.cli.plain_session import PlainSession
from baton.cli.prompt_run import wait_until_written
from baton.core.errors import ConfigError
from baton.core.labels import Label
from baton.core.sanitiser import one_line
from baton.ipc.process import own_command
from baton.models import ModelState
from baton.platform.settings import load_settings
from baton.presentation.chat_texts import (
    MODES,
    find_mode,
    find_strategy,
    is_on,
    mode_text,
    offline_text,
    private_text,
    strategy_text,
)
from baton.presentation.run_story import interruption_text, record_view
from baton.presentation.words import price_text
from baton.tui import slash_commands
from baton.tui.slash_commands import SlashCommand

Run = Callable[[PlainSession, str], Awaitable[None]]
"""Does what a command asks, with what was typed after it. Raises BatonError."""

_CEILING_WORDS = ("session", "day", "month", "policy", "pace")
"""With these first, `/budget` sets something, as in the app."""

HELP_END = (
    'A line of """ begins a prompt of several lines, another one ends it. @FILE in a prompt '
    "attaches a file. Ctrl+C stops an answer, and leaves where none is written."
)


async def run_command(session: PlainSession, typed: slash_commands.TypedCommand) -> None:
    """Do what was typed. Raises BatonError, also where there is no such command."""
    command = slash_commands.find_command(typed.name, COMMANDS)
    await _RUNS[command.name](session, typed.argument)


# The conversation


async def _open_new(session: PlainSession, _: str) -> None:
    await session.open(None)
    session.say("A new conversation.")


async def _open(session: PlainSession, named: str) -> None:
    if named:
        await session.open((await session.store.find(named)).id)
    else:
        await _run_own(session, "", "history", "ls", "-n", "20")


def _conversation(session: PlainSession) -> str:
    if session.conversation is None:
        raise ConfigError("There is nothing here yet.")
    return session.conversation


async def _continue(session: PlainSession, _: str) -> None:
    last = await session.last_run()
    view = record_view(last)
    if interruption_text(view):
        await session.resume(last)
    elif view.is_cut:
        await session.answer("Go on.")
    else:
        raise ConfigError("The last answer was not interrupted.")


async def _rename(session: PlainSession, title: str) -> None:
    if not title.strip():
        raise ConfigError("/rename needs a title.", "For example: /rename Three days in Lisbon.")
    title = one_line(title)
    await session.store.rename(_conversation(session), title)
    session.title = title
    session.say(f"This conversation is \u201c{title}\u201d from now on.")


# How answers are made


async def _preview(session: PlainSession, text: str) -> None:
    if not text:
        raise ConfigError("/plan needs a prompt.", "For example: /plan Compare tea and coffee.")
    await session.answer(text, preview=True)


async def _set_mode(session: PlainSession, typed: str) -> None:
    if not typed:
        now = session.orchestra.terms.mode
        session.say(_listed({mode: f"{text}{_now(mode == now)}" for mode, text in MODES.items()}))
        return
    session.orchestra.change_terms(mode=find_mode(typed))
    session.limits = replace(session.limits, strategy="")
    session.say(mode_text(session.orchestra.terms.mode))


async def _set_strategy(session: PlainSession, typed: str) -> None:
    helps = await asyncio.to_thread(strategy_helps)
    if not typed:
        now = session.limits.strategy
        session.say(_listed({one: f"{text}{_now(one == now)}" for one, text in helps.items()}))
        return
    strategy = find_strategy(typed, helps)
    session.limits = replace(session.limits, strategy=strategy)
    session.say(strategy_text(strategy))


async def _set_worker(session: PlainSession, worker: str) -> None:
    if not worker:
        cards = [card for card in session.orchestra.roster if not card.is_tool]
        if not cards:
            raise ConfigError(
                "There is no model yet.", "/models recommend says which suit this machine."
            )
        now = session.answering_worker
        names = {
            card.id: f"{card.name}, {card.place}, {price_text(card)}{_now(card.id == now)}"
            for card in cards
        }
        session.say(_listed(names))
        return
    session.orchestra.worker(worker).warm()
    session.worker = worker
    session.say(f"{one_line(worker, 40)} answers from now on.")


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f"{one_line(name, 40)}: {one_line(text)}" for name, text in texts.items())


def _now(is_chosen: bool) -> str:
    return " (now)" if is_chosen else ""


# Privacy


async def _set_private(session: PlainSession, state: str) -> None:
    is_private = is_on(state)
    label = Label.LOCAL if is_private else Label.CLOUD
    if session.conversation is not None:
        await session.store.relabel(session.conversation, label)
    session.label = label
    session.say(private_text(is_private))


async def _set_offline(session: PlainSession, state: str) -> None:
    offline = is_on(state) if state else not session.orchestra.terms.offline
    session.orchestra.go_offline(offline)
    session.say(offline_text(offline, session.orchestra.terms.policy))


# Baton's own commands


async def _run_own(session: PlainSession, argument: str, *words: str) -> None:
    """Run one of Baton's commands in a process of its own, which Ctrl+C ends.

    It is at a terminal that can't go back, so that it never draws a line again.
    """
    try:
        words = (*words, *shlex.split(argument))
    except ValueError:  # an apostrophe
        words = (*words, *argument.split())
    await wait_until_written(session.output)
    environ = {**os.environ, "TERM": "dumb"}
    if session.orchestra.terms.offline:
        environ["BATON_OFFLINE"] = "1"
    stdin = None if os.isatty(0) else subprocess.DEVNULL
    run = partial(subprocess.run, own_command(*words), env=environ, stdin=stdin)
    await session.wait_for_program(asyncio.to_thread(run))


def _own(*words: str, default: str = "") -> Run:
    """Return what runs one of Baton's commands, with what was typed after it, or a default."""

    async def run(session: PlainSession, argument: str) -> None:
        await _run_own(session, argument or default, *words)

    return run


def _about_last_run(*words: str) -> Run:
    """Return what runs a command about the last run of this conversation, or one that is named."""

    async def run(session: PlainSession, run: str) -> None:
        await _run_own(session, run or (await session.last_run()).id, *words)

    return run


async def _change_budget(session: PlainSession, typed: str) -> None:
    """Show or change the money; what was changed in the settings counts from now on."""
    first = typed.split(maxsplit=1)[:1]
    verb = ["set"] if first and first[0] in _CEILING_WORDS else []
    await _run_own(session, typed, "budget", *verb)
    budget = load_settings(session.baton.paths.config_file).budget
    session.orchestra.change_terms(ceilings=budget.ceilings, policy=budget.policy)
    session.orchestra.services.pacer.thrift = budget.pace
    if first == ["policy"] and session.conversation is not None:
        await session.store.allow(session.conversation, None)
    session.baton.warm_cloud()


async def _change_models(session: PlainSession, typed: str) -> None:
    """List or change the models; one that has arrived can answer from now on."""
    await _run_own(session, typed or "ls", "models")
    for held in await asyncio.to_thread(session.baton.library.models):
        if held.state in (ModelState.HERE, ModelState.LINKED) and held.id not in session.roster:
            await asyncio.to_thread(session.baton.add_model, held)


async def _show_help(session: PlainSession, _: str) -> None:
    lines = [f"/{one.name} {one.argument}".rstrip() + f": {one.help}." for one in COMMANDS]
    session.say("\n".join([*lines, HELP_END]))


async def _quit(session: PlainSession, _: str) -> None:
    session.leave()


def _plain(name: str, help: str, argument: str = "") -> SlashCommand:
    """Return a command that the app doesn't have, or not so."""
    return SlashCommand(name, "", help, argument)


_APP = {command.name: command for command in slash_commands.COMMANDS}
_ENTRIES: tuple[tuple[SlashCommand, Run], ...] = (
    (_APP["new"], _open_new),
    (_plain("open", "List the conversations; /open 2 continues the second", "NUMBER"), _open),
    (
        _plain("search", "Find messages (baton history search)", "WORDS"),
        _own("history", "search"),
    ),
    (
        _plain("show", "Show this conversation (baton history show)"),
        lambda session, _: _run_own(session, "", "history", "show", _conversation(session)),
    ),
    (_APP["rename"], _rename),
    (_APP["continue"], _continue),
    (_APP["regenerate"], lambda session, _: session.answer_again()),
    (
        _plain("good", "Mark the newest answer as good (baton history rate)"),
        _about_last_run("history", "rate", "good"),
    ),
    (_plain("bad", "Mark the newest answer as bad"), _about_last_run("history", "rate", "bad")),
    (_APP["plan"], _preview),
    (_APP["mode"], _set_mode),
    (_APP["strategy"], _set_strategy),
    (_APP["model"], _set_worker),
    (_APP["private"], _set_private),
    (_APP["offline"], _set_offline),
    (_plain("why", "Explain the newest answer (baton why)", "RUN"), _about_last_run("why")),
    (_plain("trace", "Show its run step by step (baton trace)", "RUN"), _about_last_run("trace")),
    (
        _plain("budget", "See the money; set a ceiling: /budget day 2 (baton budget)", "SCOPE USD"),
        _change_budget,
    ),
    (_plain("usage", "Show what was spent (baton usage)", "OPTIONS"), _own("usage")),
    (
        _plain("egress", "Show what left this machine (baton egress)", "ls|show NUMBER"),
        _own("egress", default="ls"),
    ),
    (
        _plain("models", "List, download and remove models (baton models)", "COMMAND"),
        _change_models,
    ),
    (_plain("doctor", "Check that everything here works (baton doctor)"), _own("doctor")),
    (_plain("help", "Show the commands"), _show_help),
    (_APP["quit"], _quit),
)
COMMANDS = tuple(command for command, _ in _ENTRIES)
_RUNS = {command.name: run for command, run in _ENTRIES}
