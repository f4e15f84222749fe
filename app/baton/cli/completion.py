"""What the Tab key knows: the shell's script, and the ids that can be completed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from baton.cli.output import emit
from baton.core.errors import BatonError
from baton.core.sanitiser import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


COMPLETE_VARIABLE = "_BATON_COMPLETE"
"""How a shell asks for completions."""


def completion_items(offered: Mapping[str, str], begun: str) -> list[CompletionItem]:
    """Return those of the words, each with its help, that begin as typed."""
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(word, help=text) for word, text in offered.items() if word.startswith(begun)
    ]


def complete_worker(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the workers' ids."""
    from baton.platform.settings import find_paths, load_settings

    try:
        roster = load_settings(find_paths().config_file).roster
    except BatonError:
        return []
    return completion_items({worker.id: worker.model for worker in roster}, incomplete)


def complete_conversation(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest conversations' ids, with their titles."""
    from baton.cli.stores import with_store

    try:
        listed = with_store(lambda store: store.conversations(limit=50))
    except BatonError:
        return []
    return completion_items({c.id: one_line(c.title, 60) for c in listed}, incomplete)


def complete_run(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the newest runs' ids, with how they ended and when."""
    import time

    from baton.cli.stores import with_store

    try:
        listed = with_store(lambda store: store.runs.newest(limit=50))
    except BatonError:
        return []
    return completion_items(
        {
            run.id: f"{run.status}, {time.strftime('%d %b %H:%M', time.localtime(run.created))}"
            for run in listed
        },
        incomplete,
    )


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
