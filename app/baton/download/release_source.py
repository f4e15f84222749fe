"""Releases of the packaged binary, from an address or a folder; see install.updater.Releases."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import msgspec

from baton.core.errors import BatonError
from baton.core.sanitiser import one_line
from baton.download.hub_source import HubSource
from baton.download.progress import Progress
from baton.download.releases import RELEASE_SCHEMA, Release, ReleaseFile


class ReleaseSource(HubSource):
    """Has the same child process fetch releases, and check who signed them."""

    async def read_release(self, source: str, key: str) -> Release:
        """Return what a release holds; see Releases."""
        text = await self._ask(str, "release", source=source, key=key)
        try:
            schema = msgspec.json.decode(text, type=_SchemaOnly).schema
            release = msgspec.json.decode(text, type=Release) if schema == RELEASE_SCHEMA else None
        except (msgspec.MsgspecError, RecursionError) as error:
            raise BatonError(
                f"The release's list can't be read: {one_line(str(error), 160)}.",
                "Tell whoever made the release.",
            ) from error
        if release is None:
            raise BatonError(
                "The release is described in a way that this version doesn't know.",
                "Install it with its own install.sh; settings, models and history stay.",
            )
        return release

    def fetch_file(
        self, source: str, file: ReleaseFile, target: Path
    ) -> AsyncGenerator[Progress | str]:
        """Have a file of a release at `target`; see Releases."""
        return self._work(
            "bring",
            source=source,
            name=file.name,
            size=file.size,
            sha256=file.sha256,
            target=str(target.absolute()),
        )


class _SchemaOnly(msgspec.Struct):
    schema: int
