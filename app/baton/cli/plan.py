"""`baton plan`: who would do what for a prompt, before anything of it is done."""

from __future__ import annotations

from typing import Any

import click

from baton.cli.ask import AskOptions, answer_prompt
from baton.cli.options import (
    PromptCommand,
    budget_option,
    continue_options,
    files_option,
    json_option,
    mode_option,
    offline_option,
    private_option,
    quiet_option,
    strategy_option,
    worker_option,
)


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
    """Draw the plan for a prompt, and play nothing of it.

    Only a conductor may be asked; if it isn't on this machine, you are asked first. `baton resume`
    plays the plan then.

    \b
      baton plan "Compare these two reports" -f a.md -f b.md
      baton plan --strategy moa "Name my boat"
    """
    return answer_prompt(AskOptions(**typed, preview=True))
