"""What the Tab key knows: the shell's script, and the ids that can be completed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from baton.cli.output import emit
from baton.core.errors import BatonError
from baton.core.sanitiser import one_line

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


COMPLETE_VARIABLE = "_BATON_COMPLETE"
"""How a shell asks for completions."""


def complete_worker(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the workers' ids."""
    from click.shell_completion import CompletionItem

    from baton.platform.settings import find_paths, load_settings

    try:
        roster = load_settings(find_paths().config_file).roster
    except BatonError:
        return []
    return [CompletionItem(w.id, help=w.model) for w in roster if w.id.startswith(incomplete)]


def complete_conversation(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Offer the newest conversations' ids, with their titles."""
    import asyncio

    from click.shell_completion import CompletionItem

    from baton.cli.stores import user_history

    async def newest() -> list[CompletionItem]:
        async with user_history() as store:
            listed = await store.conversations(limit=50)
        return [
            CompletionItem(c.id, help=one_line(c.title, 60))
            for c in listed
            if c.id.startswith(incomplete)
        ]

    try:
        return asyncio.run(newest())
    except BatonError:
        return []


def complete_run(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Offer the newest runs' ids, with how they ended and when."""
    import asyncio
    import time

    from click.shell_completion import CompletionItem

    from baton.cli.stores import user_history

    async def newest() -> list[CompletionItem]:
        async with user_history() as store:
            listed = await store.runs(limit=50)
        return [
            CompletionItem(
                run.id,
                help=f"{run.status}, {time.strftime('%d %b %H:%M', time.localtime(run.created))}",
            )
            for run in listed
            if run.id.startswith(incomplete)
        ]

    try:
        return asyncio.run(newest())
    except BatonError:
        return []


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
