"""`baton ask`: one prompt, its answer on stdout; and `baton plan`: its plan, not yet run.

The order of things here is about time: the worker is set loading before anything is imported that
the front needs later, so that both happen side by side.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from baton.cli import interrupts
from baton.cli.options import (
    STDIN,
    PromptCommand,
    add_named_worker,
    budget_option,
    check_strategy,
    continue_options,
    events_option,
    files_option,
    find_continued,
    json_option,
    mode_option,
    no_stream_option,
    offline_option,
    private_option,
    quiet_option,
    strategy_option,
    worker_option,
)
from baton.cli.output import notify
from baton.cli.piped_text import read_piped
from baton.core.errors import ConfigError, ModelFileError
from baton.core.frozen_dataclass import frozen_dataclass
from baton.core.labels import Label
from baton.core.messages import Attachment, Card, Prompt, is_too_long
from baton.core.money import parse_usd
from baton.core.sanitiser import remove_terminal_codes
from baton.ipc.spare_process import end_spares
from baton.platform.paths import find_paths
from baton.platform.settings import Settings, load_settings

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from baton.cli.prompt_run import OutputOptions
    from baton.compose import Baton
    from baton.core.permissions import PromptLimits
    from baton.core.run.orchestra import Orchestra
    from baton.history import Store


@frozen_dataclass
class AskOptions:
    """What was typed, as click hands it over: see the options below.

    With `preview` the plan is drawn, and no step of it runs (`baton plan`). `missing` has a
    sentence for each file that the text names and that can't be attached.
    """

    text: tuple[str, ...]
    worker: str | None
    latest: bool
    conversation: str | None
    files: tuple[Path, ...]
    mode: str | None
    strategy: str | None
    offline: bool
    private: bool
    budget: str | None
    as_json: bool
    quiet: bool
    system: str | None = None
    no_history: bool = False
    as_events: bool = False
    no_stream: bool = False
    max_tokens: int | None = None
    temperature: float | None = None
    seed: int | None = None
    drop_oldest: bool = False
    deadline: float | None = None
    no_daemon: bool = False
    preview: bool = False
    missing: tuple[str, ...] = ()

    def settings(self) -> tuple[Settings, str | None]:
        """Return the settings with what was typed on top, and the worker's id.

        Raises ConfigError, also for options that exclude each other.
        """
        if self.as_json and self.as_events:
            raise ConfigError("--json and --events exclude each other.", "Choose one.")
        if self.no_history and (self.latest or self.conversation is not None):
            raise ConfigError("--no-history can't continue a conversation.", "Leave out one.")
        if self.budget is not None:
            parse_usd(self.budget)
        check_strategy(self.strategy)
        typed = {"offline": self.offline, "mode": self.mode}
        flags = {name: value for name, value in typed.items() if value}
        return add_named_worker(load_settings(find_paths().config_file, flags=flags), self.worker)

    @property
    def label(self) -> Label:
        """How far the prompt may travel."""
        return Label.LOCAL if self.private else Label.CLOUD

    def limits(self) -> PromptLimits:
        """Return what the user allows the prompt."""
        from baton.core.permissions import PromptLimits

        return PromptLimits(
            self.label,
            self.max_tokens,
            self.temperature,
            self.seed,
            budget=None if self.budget is None else parse_usd(self.budget),
            attended=os.isatty(0) and os.isatty(2),
            keep=not self.no_history,
            alone=self.worker is not None and self.strategy is None,
            strategy=self.strategy or "",
            preview=self.preview,
            deadline=self.deadline,
        )

    def output(self, has_warnings: bool, lacks: tuple[dict[str, str], ...]) -> OutputOptions:
        """Return how the answer is shown, with warnings about what the prompt `lacks`."""
        from baton.cli.prompt_run import OutputOptions

        plain = "whole" if self.no_stream else "text"
        return OutputOptions(
            "json" if self.as_json else "events" if self.as_events else plain,
            self.quiet,
            self.drop_oldest,
            is_kept=not self.no_history,
            is_preview=self.preview,
            has_warnings=has_warnings,
            lacks=lacks,
        )

    @property
    def may_keep_warm(self) -> bool:
        """Whether a model may stay loaded afterwards: what it has read stays in its memory."""
        is_private = self.private or self.no_history
        return not (self.no_daemon or self.quiet or self.preview or is_private)


@click.command(cls=PromptCommand)
@click.argument("text", nargs=-1)
@worker_option
@click.option("-s", "--system", metavar="TEXT", help="How the worker should behave (system text).")
@continue_options
@files_option
@mode_option
@strategy_option
@offline_option
@private_option
@click.option("--no-history", is_flag=True, help="Don't save this to the history.")
@budget_option
@json_option
@events_option
@no_stream_option
@quiet_option
@click.option("--max-tokens", type=click.IntRange(1), metavar="N", help="The answer's length cap.")
@click.option(
    "--temperature",
    type=click.FloatRange(0, 2),
    metavar="T",
    help="0 takes the likeliest word each time.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    metavar="N",
    help="Random seed, for repeatable answers while the model answers no other request.",
)
@click.option(
    "--drop-oldest", is_flag=True, help="Leave out the oldest turns that don't fit any more."
)
@click.option(
    "--deadline",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="Stop SECONDS after the prompt is complete, and print what is written so far.",
)
@click.option("--no-daemon", is_flag=True, help="Use no background process, and leave none behind.")
def ask(**typed: Any) -> int:
    """Answer one prompt on stdout.

    Piped text goes before TEXT; without a byte of it within two seconds, TEXT alone is asked (-f -
    waits). The answer alone is on stdout; progress is shown on stderr. After -f, words that are
    files are attached too, and @FILE in TEXT is; after -- nothing is.

    \b
      baton ask "What is the capital of France?"
      git diff | baton ask "Write a commit message for this"
      baton ask -f report.pdf "What are the three main points?"
      baton ask -f *.md "What do they have in common?"
      baton ask "Summarise @notes.md"
      baton ask -c "And shorter?"
      baton ask --strategy vote "What is 17 times 23?"
    """
    return answer_prompt(AskOptions(**typed))


@click.command(cls=PromptCommand)
@click.argument("text", nargs=-1)
@worker_option
@continue_options
@files_option
@mode_option
@strategy_option
@offline_option
@private_option
@budget_option
@json_option
@quiet_option
def plan(**typed: Any) -> int:
    """Draw the plan for a prompt, and run none of it.

    Only a conductor may be asked; if it isn't on this machine, you are asked first. `baton resume`
    runs the plan then.

    \b
      baton plan "Compare these two reports" -f a.md -f b.md
      baton plan --strategy moa "Name my boat"
    """
    return answer_prompt(AskOptions(**typed, preview=True))


def answer_prompt(options: AskOptions) -> int:
    """Answer what was typed, or draw a plan for it; return the exit code."""
    settings, worker = options.settings()
    text = _check_utf8(" ".join(options.text))
    if not (text.strip() or options.files) and os.isatty(0):
        raise _empty_prompt_error()
    from baton.compose import compose
    from baton.core.reading.bare_expressions import is_computable

    # What a tool answers alone needs no model; text that is piped in besides may need one, later.
    is_computed = settings.tools and not worker and is_computable(text)
    baton = compose(
        settings,
        find_paths(),
        history=not options.no_history,
        warm=None if is_computed else worker or settings.worker,
        label=options.label,
        borrow=not options.no_daemon,
    )
    end_spares()
    card = _answering_card(baton.orchestra, worker, text)  # an unknown one is reported at once

    with running_loop(baton) as runner:
        conversation = runner.run(find_continued(baton.store, options.latest, options.conversation))
        # Outside the loop, where Ctrl+C ends a wait for piped text that never comes.
        prompt, lacks = _build_prompt(options, text, card)
        if conversation is not None and not options.quiet and os.isatty(2):
            runner.run(_report_unfinished(baton.store, conversation))

        from baton.cli.prompt_run import show_run
        from baton.core.ports import ConversationPosition

        place = ConversationPosition(conversation)
        begin = partial(baton.orchestra.run, prompt, place, options.limits(), worker=worker)
        special = None
        if options.preview and not options.as_json:
            from baton.cli.plan_renderer import PlanRenderer

            special = partial(PlanRenderer, baton.orchestra.roster)
        shown = options.output(settings.warnings, lacks)
        code: int = runner.run(show_run(begin, shown, special))
        if options.may_keep_warm and (notice := baton.keep_models_loaded()):
            notify(f"baton: {notice}")
        return code


def _answering_card(orchestra: Orchestra, worker: str | None, text: str) -> Card:
    """Return who answers; while no model is here, what is piped in may be for a tool."""
    try:
        return orchestra.worker(worker, text).card
    except ModelFileError:
        tools = [card for card in orchestra.roster if card.is_tool]
        if worker or text.strip() or os.isatty(0) or not tools:
            raise
        return tools[0]


@contextmanager
def running_loop(baton: Baton) -> Iterator[asyncio.Runner]:
    """Yield what runs coroutines; say what the user must know of Baton, and close it after."""
    import asyncio

    with asyncio.Runner() as runner:
        try:
            interrupts.raise_if_interrupted()
            baton.require_conductor()
            baton.store.require_writable()
            if warning := baton.warning:
                notify(f"baton: {warning}")
            baton.report_later(lambda text: notify(f"baton: {text}"))
            yield runner
        finally:
            baton.end_models()
            runner.run(baton.aclose())


def _check_utf8(text: str) -> str:
    """Return a text of the command line without terminal codes. Raises ConfigError."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError("The prompt is not UTF-8 text.", "Pipe it in as UTF-8.") from error
    return remove_terminal_codes(text)


def _empty_prompt_error() -> ConfigError:
    return ConfigError(
        "There is nothing to ask.", 'Try `baton ask "What is the capital of France?"`.'
    )


async def _report_unfinished(store: Store, conversation: str) -> None:
    """Say how to continue the conversation's last answer, if Baton was ended during it."""
    last = await store.runs.last(conversation)
    if last is not None and last.status == "lost":
        from baton.presentation.run_story import record_view, resume_hint

        if hint := resume_hint(last.id, record_view(last)):
            notify(f"baton: The answer before this one: {hint}")


def _build_prompt(
    options: AskOptions, text: str, card: Card
) -> tuple[Prompt, tuple[dict[str, str], ...]]:
    """Gather what goes to the worker, and say what is attached; return what isn't, as warnings.

    Piped text that `card` can't hold beside what was typed is attached, so that it is read in
    pieces as a file is.
    """
    from baton.presentation.words import lack_text
    from baton.workers import read_attachment

    is_attached = STDIN in options.files
    piped, lack = read_piped(
        quiet=options.quiet,
        may_skip=bool(text.strip()) and not is_attached,
        deadline=None if is_attached else options.deadline,
    )
    piped = piped.rstrip("\n")
    if is_attached and not piped.strip():
        raise ConfigError("Nothing was piped in for `-f -`.", "Leave it out, or pipe a text in.")
    files = tuple(
        _piped_file(piped) if path == STDIN else read_attachment(path) for path in options.files
    )
    if not is_attached and (is_attached := _is_too_long(piped, text, card)):
        files = (_piped_file(piped), *files)
    whole = "\n\n".join(part for part in ("" if is_attached else piped, text) if part.strip())
    if not whole and not files:
        raise _empty_prompt_error()
    lacks = [_lack_object("missing_file", each, "Check the path.") for each in options.missing]
    if lack:
        lacks.append(_lack_object("piped_text", lack, "`-f -` waits for its end."))
    if not options.quiet:
        _show_files(files)
        for each in lacks:
            notify(f"baton: {each['message']} {each['hint']}")
    for file in files:
        if lack := lack_text(file):  # which is shown behind the file's name
            message = f"{file.name} has {lack}."
            lacks.append(_lack_object("unreadable", message, "Look into the file."))
    system = None if options.system is None else _check_utf8(options.system)
    return Prompt(whole, files, system), tuple(lacks)


def _lack_object(kind: str, message: str, hint: str) -> dict[str, str]:
    return {"kind": kind, "message": message, "hint": hint}


def _piped_file(text: str) -> Attachment:
    return Attachment("piped text", text, len(text.encode()))


def _is_too_long(piped: str, text: str, card: Card) -> bool:
    """Whether a worker can't hold piped text beside a question, so that it is to be attached."""
    if not text.strip():
        return False  # the piped text is the question itself
    return is_too_long(card, [piped], text)


MAX_FILES_SHOWN = 10
"""With more files than so many, a line sums them up."""


def _show_files(files: tuple[Attachment, ...]) -> None:
    from baton.presentation.words import file_text, files_text, lack_text

    is_many = len(files) > MAX_FILES_SHOWN
    for file in files:
        if not is_many or lack_text(file):
            notify(f"With {file_text(file)}")
    if is_many:
        notify(f"With {files_text(files)}")
