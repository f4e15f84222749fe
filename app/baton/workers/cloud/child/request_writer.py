"""Writes a call's request in its provider's dialect, with the settings that its model takes."""

from __future__ import annotations

from baton.workers.cloud.child.cloud_call import CloudCall, HttpRequest
from baton.workers.cloud.child.litellm_requests import LitellmRequests
from baton.workers.cloud.child.openai_requests import own_request
from baton.workers.cloud.child.request_settings import settings_of

OWN_DIALECTS = ("chat", "responses")
"""The dialects that Baton writes itself: litellm is imported for the others alone."""


class RequestWriter:
    """`effort` is how much models may think."""

    def __init__(self, effort: str) -> None:
        self._effort = effort
        self._litellm = LitellmRequests()

    async def write(self, call: CloudCall) -> HttpRequest:
        """Return the request for a call, and note in the call what of it will be asked for.

        Raises Failure for a setting that isn't taken, and any exception of litellm's.
        """
        settings = settings_of(call, self._effort)
        if call.dialect in OWN_DIALECTS:
            return own_request(call, settings)
        return await self._litellm.write(call, settings)
