"""Having a model recorded as wanted, with whatever must be asked before that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from textual.app import App

from baton.core.catalogue_types import ModelRole
from baton.models.model_types import Held
from baton.tui.screens.confirm_screen import ConfirmScreen

if TYPE_CHECKING:
    from baton.models.library import Library
    from baton.models.library_state import NeedsAgreement


async def request_model(
    app: App[Any], library: Library, model: str, roles: Sequence[ModelRole] | None = None
) -> Held | None:
    """Return the model, to be fetched now; None if the person thought better of it.

    A licence that isn't a free one must be agreed to, and a model that won't fit insisted on. To be
    called in a worker of the app's, since it may wait for the person. Raises BatonError.
    """
    from baton.models.library_state import DoesNotFit, NeedsAgreement

    agreed = force = False
    while True:
        try:
            return await library.want(model, roles, agreed=agreed, force=force)
        except NeedsAgreement as error:
            text = f"{error.message}\n{_licence_place_text(error)}"
            agreed = await _confirm(app, "Agree to its licence?", text, "I agree to it")
            if not agreed:
                return None
        except DoesNotFit as error:
            text = f"{error.verdict.why}\n{error.verdict.mend}".strip()
            force = await _confirm(app, "It won't fit", text, "Download it all the same")
            if not force:
                return None


def _licence_place_text(error: NeedsAgreement) -> str:
    """Say where the licence can be read."""
    return (
        f"It can be read at {error.place or 'its page'}. Such licences say what the model may be "
        "used for, or by whom; Apache-2.0 and MIT don't."
    )


async def _confirm(app: App[Any], heading: str, text: str, yes: str) -> bool:
    decided: bool | None = await app.push_screen_wait(ConfirmScreen(heading, text, yes))
    return bool(decided)
