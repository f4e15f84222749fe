"""`baton` itself: the table of its commands, and what happens without one."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from baton import __version__
from baton.cli import INTERRUPTED, interrupts
from baton.cli.error_report import discard_stdout, report_failure
from baton.cli.options import (
    COMPLETE_VARIABLE,
    add_named_worker,
    continue_options,
    find_continued,
    offline_option,
    worker_option,
)
from baton.core.errors import ConfigError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.platform.import_stubs import import_without
from baton.platform.paths import find_paths
from baton.platform.settings import ignored_variables, load_settings

if TYPE_CHECKING:
    from baton.compose import Baton
    from baton.server import OpenEndpoint


class CommandEntry(NamedTuple):
    """Where a command lives (`module:attribute`), and its line in the help."""

    target: str
    help: str


COMMANDS = {
    "ask": CommandEntry("baton.cli.ask:ask", "Answer one prompt on stdout."),
    "plan": CommandEntry("baton.cli.ask:plan", "Draw the plan for a prompt, and run none of it."),
    "serve": CommandEntry("baton.cli.serve:serve", "Let other programs use Baton as one model."),
    "resume": CommandEntry(
        "baton.cli.resume:resume", "Continue an interrupted run, or run a plan."
    ),
    "history": CommandEntry(
        "baton.cli.history:history", "List, search, show, rate, export conversations."
    ),
    "why": CommandEntry("baton.cli.trace:why", "Say in a sentence or two who answered, and why."),
    "trace": CommandEntry("baton.cli.trace:trace", "Show what happened in one run, step by step."),
    "workers": CommandEntry("baton.cli.workers:workers", "Show and test what can answer."),
    "models": CommandEntry(
        "baton.cli.models:models", "List, fetch, verify, remove and recommend models."
    ),
    "ps": CommandEntry(
        "baton.cli.models.model_list:ps", "List the loaded models, and the background process."
    ),
    "budget": CommandEntry("baton.cli.budget:budget", "Show and set what may be spent."),
    "keys": CommandEntry("baton.cli.keys:keys", "Set, list, remove and test the providers' keys."),
    "usage": CommandEntry(
        "baton.cli.usage:usage", "Show what was spent, by day, worker or purpose."
    ),
    "egress": CommandEntry("baton.cli.egress:egress", "Show everything that left this machine."),
    "bench": CommandEntry(
        "baton.cli.bench:bench", "Compare strategies on questions with known answers."
    ),
    "config": CommandEntry("baton.cli.config:config", "Show and edit the settings."),
    "doctor": CommandEntry("baton.cli.doctor:doctor", "Check that everything here works."),
    "self": CommandEntry("baton.cli.installation:own", "Update, roll back or uninstall Baton."),
    "completion": CommandEntry(
        "baton.cli.options:completion", "Print the completions for your shell."
    ),
}

EPILOG = """\b
Examples:
  baton                                   open the app
  baton -c                                open it with the latest conversation
  baton --plain                           chat line by line, for screen readers
  baton ask "What is the capital of France?"
  git diff | baton ask "Write a commit message for this"
  baton ask -c "And of Spain?"            continue the latest conversation
  baton plan "Compare these two drafts"   see who would do what; `baton resume` runs it
  baton serve                             let editors and scripts use Baton as a model
  baton why                               who answered last, and why
  baton history search lisbon
  baton models recommend                  which models suit this machine, and how to get them
  baton keys set openai                   keep a key, typed hidden
  baton budget set day 2                  allow $2 a day for cloud workers

\b
Exit codes: 0 done · 1 anything else · 2 usage or settings · 3 no key · 4 ceiling
reached or a charge above what was held · 5 model file · 6 worker failed · 130 interrupted

\b
BATON_HOME=FOLDER keeps everything in one folder; BATON_OFFLINE=1 stays offline;
BATON_LOCAL__THREADS=4 (for example) sets any setting.
"""


@frozen_dataclass
class AppOptions:
    """What was typed for the app, as click hands it over: see the options of `baton`."""

    latest: bool
    conversation: str | None
    worker: str | None
    private: bool
    offline: bool
    plain: bool


class LazyGroup(click.Group):
    """A group that imports a command only when that one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command, if there is one of that name."""
        if (entry := COMMANDS.get(cmd_name)) is None:
            return None
        module, _, attribute = entry.target.partition(":")
        if cmd_name != "ask":  # which loads asyncio only to answer
            import_without("ssl", "asyncio")  # only child processes talk to the world
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table itself, which needs no import."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or say what was probably meant."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise _unknown_command_error(ctx, name)
        return super().resolve_command(ctx, args)


def _unknown_command_error(ctx: click.Context, name: str) -> Exception:
    import shlex

    if " " in name.strip():
        return ConfigError("A prompt needs the word `ask`.", f"`baton ask {shlex.quote(name)}`")
    return click.exceptions.NoSuchCommand(name, ctx=ctx)


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="baton %(version)s")
@continue_options
@worker_option
@click.option("--private", is_flag=True, help="Never let a conversation leave this machine.")
@offline_option
@click.option(
    "--plain", is_flag=True, help="Chat line by line, for screen readers and simple terminals."
)
@click.pass_context
def baton(ctx: click.Context, /, **typed: Any) -> int | None:
    """Talk to language models on your own machine.

    Without a command, Baton opens the app. The options below are the app's; a command's own go
    after its name.
    """
    _warn_of_variables()
    if ctx.invoked_subcommand is None:
        return _open_app(AppOptions(**typed))
    for option in ctx.command.params:
        if ctx.params.get(option.name or ""):
            command = ctx.invoked_subcommand
            raise ConfigError(
                f"{option.opts[-1]} before `{command}` would be the app's.",
                f"A command's options go after its name: `baton {command} --help` lists them.",
            )
    return None


def _warn_of_variables() -> None:
    """Name variables that look like settings and set nothing. Raises ConfigError."""
    if not any(name[:5].upper() == "BATON" for name in os.environ):
        return
    from baton.cli.output import notify

    for name in ignored_variables():
        notify(f"baton: {name} is set, and there is no such setting; it is ignored.")


def _open_app(options: AppOptions) -> int:
    import gc

    gc.disable()  # starting frees nothing: `started` enables it once the app is on the screen

    paths = find_paths()
    flags = {"offline": True} if options.offline else {}
    settings = load_settings(paths.config_file, flags=flags)
    is_plain = options.plain or settings.screen.plain
    if not is_plain:
        _require_screen()
    settings, worker = add_named_worker(settings, options.worker)
    import_without("ssl", "asyncio")
    import asyncio
    from pathlib import Path

    from baton.compose import compose
    from baton.core.labels import Label
    from baton.core.permissions import ANYTHING, PromptLimits
    from baton.platform.secrets import remove_keys

    baton = compose(settings, paths)
    if not is_plain:
        from baton.tui.app import run_app  # while history and ledger are opened

    baton.require_conductor()
    lost = "" if worker is not None else baton.stand_in()
    conversation = None
    if options.latest or options.conversation is not None:
        finding = find_continued(baton.store, options.latest, options.conversation)
        conversation = asyncio.run(finding)
    interrupts.restore_default_handler()
    greeting = " ".join(filter(None, (lost, baton.warning)))
    limits = PromptLimits(label=Label.LOCAL) if options.private else ANYTHING
    if is_plain:
        from baton.cli.plain_chat import run_plain_chat

        baton.store.require_writable()
        gc.enable()
        chat = run_plain_chat(
            baton, limits=limits, worker=worker, conversation=conversation, greeting=greeting
        )
        return asyncio.run(chat)
    # From here on only the gateway knows the keys; the app starts editors and clipboards.
    remove_keys(os.environ, *(getattr(entry, "api_key_env", "") for entry in settings.roster))
    return run_app(
        baton,
        exports=Path.cwd(),
        limits=limits,
        worker=worker,
        conversation=conversation,
        greeting=greeting,
        started=gc.enable,
        serve=partial(_serve, baton, limits.label is Label.LOCAL),
    )


def _require_screen() -> None:
    """Raise ConfigError where the app can't be shown."""
    if not (os.isatty(0) and os.isatty(1)):
        raise ConfigError("The app needs a terminal.", "For scripts there is `baton ask`.")
    if os.environ.get("TERM") == "dumb":
        raise ConfigError(
            "The app needs a terminal that can move its cursor, and TERM is dumb.",
            "`baton --plain` chats line by line.",
        )


@asynccontextmanager
async def _serve(parts: Baton, is_private: bool, port: int | None) -> AsyncIterator[OpenEndpoint]:
    from baton.server import DEFAULT_PORT, ServingLimits, serving

    allowed = ServingLimits(is_private=is_private)
    async with serving(parts, port or DEFAULT_PORT, grace=2, allowed=allowed) as endpoint:
        await parts.share_models()
        yield endpoint


def run(args: Sequence[str]) -> int:
    """Run one command and return its exit code; report what went wrong."""
    try:
        code = baton.main(
            list(args), "baton", standalone_mode=False, complete_var=COMPLETE_VARIABLE
        )
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr, flush=True)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return discard_stdout()
    except Exception as error:
        # An interrupted import or library call often ends in an error of its own.
        return INTERRUPTED if interrupts.was_interrupted() else report_failure(error, args)
    return code if isinstance(code, int) else 0
