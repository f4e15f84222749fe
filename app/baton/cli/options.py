"""The options that several commands share, and the values they result in."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from baton.cli.output import emit, notify
from baton.core.errors import BatonError, ConfigError
from baton.core.messages import MENTION_SIGNS
from baton.core.sanitiser import one_line
from baton.platform.durable_files import expand_home
from baton.platform.paths import find_paths
from baton.platform.settings import (
    MODES,
    CloudWorkerSettings,
    LocalWorkerSettings,
    Settings,
    WorkerSettings,
    load_settings,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from baton.history import Store

CommandT = TypeVar("CommandT", bound="Callable[..., object] | click.Command")

COMPLETE_VARIABLE = "_BATON_COMPLETE"
"""How a shell asks for completions."""


Completer = Callable[[click.Context, click.Parameter, str], "list[CompletionItem]"]
"""Offers a shell the words that begin as typed."""


def completer(offered: Callable[[], Mapping[str, str]]) -> Completer:
    """Return what offers those words, each with its help; none where they can't be found."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        try:
            words = offered()
        except BatonError:
            return []
        return [
            CompletionItem(word, help=text)
            for word, text in words.items()
            if word.startswith(begun)
        ]

    return complete


@completer
def complete_worker() -> Mapping[str, str]:
    """Offer the workers' ids."""
    return {worker.id: worker.model for worker in load_settings(find_paths().config_file).roster}


@completer
def complete_conversation() -> Mapping[str, str]:
    """Offer the newest conversations' ids, with their titles."""
    from baton.cli.stores import with_store

    listed = with_store(lambda store: store.conversations(limit=50))
    return {one.id: one_line(one.title, 60) for one in listed}


@completer
def complete_run() -> Mapping[str, str]:
    """Offer the newest runs' ids, with how they ended and when."""
    import time

    from baton.cli.stores import with_store

    return {
        run.id: f"{run.status}, {time.strftime('%d %b %H:%M', time.localtime(run.created))}"
        for run in with_store(lambda store: store.runs.newest(limit=50))
    }


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that teaches SHELL to complete baton's commands.

    \b
      bash:  baton completion bash >> ~/.bashrc
      zsh:   baton completion zsh >> ~/.zshrc
      fish:  baton completion fish > ~/.config/fish/completions/baton.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows all three"
    # Without `source()`, which starts a bash to learn its version.
    made = kind(click.get_current_context().find_root().command, {}, "baton", COMPLETE_VARIABLE)
    emit((made.source_template % made.source_vars()).rstrip("\n"))


# The options


worker_option = click.option(
    "-m",
    "--worker",
    metavar="ID",
    shell_complete=complete_worker,
    help="Who answers: a worker's id (`baton workers ls`), a GGUF file, or openai/gpt-5-mini.",
)
_latest_option = click.option(
    "-c", "latest", is_flag=True, help="Continue the latest conversation."
)
_named_option = click.option(
    "--continue",
    "conversation",
    metavar="ID|NUMBER|TITLE",
    shell_complete=complete_conversation,
    help="Continue a conversation: its id, its number in `baton history ls`, or its title.",
)


def continue_options(command: CommandT) -> CommandT:
    """Add -c (the latest conversation) and --continue (one that is named)."""
    return _latest_option(_named_option(command))


async def find_continued(store: Store, latest: bool, named: str | None) -> str | None:
    """Return the conversation that -c or --continue asks for, None without. Raises ConfigError."""
    if latest and named is not None:
        raise ConfigError("-c and --continue exclude each other.", "Choose one.")
    if named is not None:
        return (await store.find(named)).id
    if not latest:
        return None
    if (newest := await store.latest()) is None:
        raise ConfigError("There is no conversation to continue.", "Leave out -c.")
    return newest


def limit_option(default: int) -> Callable[[CommandT], CommandT]:
    """Return -n, with how many rows are listed without it."""
    return click.option(
        "-n",
        "--limit",
        metavar="N",
        type=click.IntRange(1),
        default=default,
        show_default=True,
        help="How many to list.",
    )


offline_option = click.option(
    "--offline", is_flag=True, help="Connect to nothing but this machine."
)

files_option = click.option(
    "-f",
    "--file",
    "files",
    metavar="PATH",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Attach files: text, code, Markdown, CSV or PDF; - is what is piped in.",
)
STDIN = Path("-")
"""The path that stands for what is piped in."""

mode_option = click.option(
    "--mode",
    type=click.Choice(MODES),
    help="How far to go for an answer: `mini` never waits for a plan, `ultra` plans and verifies.",
)


def strategy_helps() -> dict[str, str]:
    """Return the help of every strategy and template, by name.

    A template that is wrong says so; naming it on the command line shows what is wrong.
    """
    from baton.core.strategies import STRATEGIES
    from baton.workers import read_templates

    known = {name: entry.help for name, entry in STRATEGIES.items()}
    try:
        templates = read_templates(find_paths().config / "templates")
    except BatonError:
        templates = read_templates()
    for name in templates:
        try:
            text = f"{templates[name].about} (a template)".strip()
        except BatonError:
            text = "This template has an error; `baton plan` with it shows which."
        known.setdefault(name, text)
    return known


@completer
def complete_strategy() -> Mapping[str, str]:
    """Offer the strategies' and the templates' names."""
    return {name: one_line(text) for name, text in strategy_helps().items()}


strategy_option = click.option(
    "--strategy",
    metavar="NAME",
    shell_complete=complete_strategy,
    help="How to find an answer, in place of what --mode would choose: see below.",
)
private_option = click.option(
    "--private", is_flag=True, help="Never let this conversation leave this machine."
)
budget_option = click.option(
    "--budget", metavar="USD", help="The most this prompt may cost, in US dollars."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object, on failure too."
)
events_option = click.option(
    "--events", "as_events", is_flag=True, help="Print what happens as JSON Lines."
)
no_stream_option = click.option(
    "--no-stream", is_flag=True, help="Print the answer only when it is complete."
)
json_object_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Don't ask.")
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")


_TEXT = "\0"
"""Stands before a word of the prompt that begins with a dash; no argument can hold it."""

_DASHED_TEXT = re.compile(r"-{1,2}(?:[^\w-]|\d)|-{3}")
"""How a word begins that no option begins like: `-5+3`, `- a list`, `---`."""


class PromptCommand(click.Command):
    """A command that takes a prompt and files.

    Its help ends with the strategies there are, which are imported only for it.
    """

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the strategies."""
        with formatter.section("Strategies"):
            formatter.write_dl(list(strategy_helps().items()))
        super().format_epilog(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse words; those after -f that are files are files, and so is @FILE in the prompt.

        After `--` each word belongs to the prompt as it is, and so does one like `-5+3` before it.
        """
        if ctx.resilient_parsing:  # for the tab key, where words are missing
            return super().parse_args(ctx, args)
        end = args.index("--") if "--" in args else len(args)
        try:
            rest = super().parse_args(ctx, self._mark_text(_with_each_file(args[:end])))
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            what = f"No such option {error.option_name!r}; a prompt that begins so goes after --"
            raise click.NoSuchOption(error.option_name, what, ctx=ctx) from None
        typed = tuple(word.removeprefix(_TEXT) for word in ctx.params.get("text", ()))
        files = ctx.params["files"]
        if files or any(sign in word for word in typed for sign in MENTION_SIGNS):
            from baton.workers import distinct_files, find_mentions

            mentioned, missing = find_mentions(" ".join(typed)), tuple[str, ...]()
            if files and typed and re.fullmatch(rf"[^{MENTION_SIGNS}\s]\S*", typed[0]):
                beside = find_mentions(f"@{typed[0]}")
                missing = beside.missing
                if [*map(str, beside.files)] == [typed[0]]:
                    missing = (f"{one_line(typed[0])} is in your prompt, and wasn't attached.",)
            ctx.params["files"] = tuple(distinct_files((*files, *mentioned.files)))
            ctx.params["missing"] = (*missing, *mentioned.missing)
        ctx.params["text"] = (*typed, *args[end + 1 :])
        return rest

    def _mark_text(self, words: Sequence[str]) -> list[str]:
        """Mark the words that begin with a dash and can't be options, unless they are values."""
        options = [each for each in self.params if isinstance(each, click.Option)]
        valued = {name for option in options if not option.is_flag for name in option.opts}
        return [
            _TEXT + word if _DASHED_TEXT.match(word) and last not in valued else word
            for last, word in zip(("", *words), words, strict=False)
        ]


def _with_each_file(args: Sequence[str]) -> list[str]:
    """Return words with -f before each file: a shell makes `-f a.md b.md` of `-f *.md`.

    Words after a file are files as long as they hold `/` or a dot and exist.
    """
    words: list[str] = []
    is_path = is_listing = False  # whether the next word is a path, or may be a further one
    for word in args:
        if is_path:
            is_path, is_listing = False, True
        elif word in ("-f", "--file"):
            is_path = True
        elif word.startswith(("-f", "--file=")):
            is_listing = True
        elif is_listing and not word.startswith("-") and _is_path(word):
            words.append("--file")  # which click finds without a search for similar ones
        else:
            is_listing = False
        words.append(word)
    return words


def _is_path(word: str) -> bool:
    try:
        return ("/" in word or "." in word) and Path(word).exists()
    except (OSError, ValueError):  # too long, or a null byte: a prompt
        return False


def check_strategy(name: str | None) -> None:
    """Refuse a strategy that there isn't, naming the nearest one. Raises ConfigError."""
    if name is None:
        return
    from baton.core.strategies import STRATEGIES

    if name in STRATEGIES:
        return
    import difflib

    from baton.workers import read_templates

    known = [*STRATEGIES, *read_templates(find_paths().config / "templates")]
    if name in known:
        return
    near = difflib.get_close_matches(name.lower(), known, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."
    raise ConfigError(f"There is no strategy {name!r}.", hint)


def add_named_worker(settings: Settings, worker: str | None) -> tuple[Settings, str | None]:
    """Return the id of what -m named, and settings that know it.

    A GGUF file becomes a worker, and so does a provider's model ("openai/gpt-5-mini"). Raises
    ConfigError for a model that isn't asked, or whose name is another.
    """
    if worker is not None and not worker.strip():
        raise ConfigError(
            "-m names no worker: it was empty, as a variable that isn't set would be.",
            "Leave -m out, or name one of `baton workers ls`.",
        )
    is_file = worker is not None and worker.lower().endswith(".gguf")
    if worker is None or not (is_file or os.sep in worker or "/" in worker):
        return settings, worker
    if any(entry.id == worker for entry in settings.roster):
        return settings, worker
    import msgspec

    from baton.workers.cloud import provider_model

    file = expand_home(worker).absolute()
    is_file = is_file or worker.startswith((".", "~", os.sep)) or file.is_file()
    if model := "" if is_file else provider_model(worker.strip()):
        adhoc: WorkerSettings = CloudWorkerSettings(id=worker.strip(), model=model)
    else:
        adhoc = LocalWorkerSettings(id=file.stem, model=str(file))
    return msgspec.structs.replace(settings, workers=(*settings.workers, adhoc)), adhoc.id


ALIASES = {"list": "ls", "remove": "rm", "get": "pull"}


class AliasedGroup(click.Group):
    """A group whose commands answer to their longer names as well.

    Alone it lists or shows what it is about.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse words; without any, those of `ls` or `show`."""
        if not args and not ctx.resilient_parsing:
            args = ["ls" if "ls" in self.commands else "show"]
            notify(f"`{ctx.command_path} --help` lists what else there is.")
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Find a command by either name."""
        return super().get_command(ctx, ALIASES.get(cmd_name, cmd_name))
