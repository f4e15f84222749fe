"""The models on this machine, and how others come to it: one way for commands and screen."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from baton.domain.catalogue import Entry, Offer, Role, Source
from baton.domain.errors import ConfigError, ModelFileError
from baton.domain.fit import Verdict
from baton.domain.gguf import Header
from baton.domain.library import Foreign, Held, Progress, Record
from baton.domain.machine import Machine
from baton.engine.recommend import Recommendation


class Supply(Protocol):
    """Where model files come from. The only part of Baton that connects to a hub.

    Raises ModelFileError where a file is wrong, WorkerUnavailable where nothing could be reached,
    ConfigError for what doesn't exist or in offline mode.
    """

    async def look(self, source: Source) -> Offer:
        """Return what the hub says of a file now, pinned to a revision.

        A `source.revision` of 40 hex digits stays. `source.file` must be a file's name.
        """
        ...

    async def files(self, repo: str, revision: str = "") -> Sequence[Offer]:
        """Return the GGUF files of a repository, all pinned to the same revision."""
        ...

    async def header(self, offer: Offer) -> Header:
        """Return a file's header, read by ranged requests before the file itself is fetched."""
        ...

    def fetch(self, offer: Offer, target: Path) -> AsyncGenerator[Progress]:
        """Fetch a file to `target`, going on where an earlier attempt ended.

        `target` appears only when its contents have been verified. Closing the generator pauses;
        what has come stays, as `<sha256>.partial` in `target`'s folder.
        """
        ...

    def digest(self, path: Path) -> AsyncGenerator[Progress | str]:
        """Read a file; progress as it goes, then its sha256 in hex."""
        ...

    async def aclose(self) -> None:
        """Let go of processes. Downloads stop, and can go on later."""
        ...


class Shelf(Protocol):
    """The folder where models lie. Its methods are quick: none reads a whole file.

    Names that would lead out of the folder are refused with ConfigError.
    """

    def held(self) -> Sequence[Held]:
        """Return the models there are, by id; folders of nobody's are left out."""
        ...

    def get(self, id: str) -> Held | None:
        """Return one model, None if it isn't there."""
        ...

    def put(self, record: Record) -> Held:
        """Keep a record, new or changed; replaced as a whole."""
        ...

    def remove(self, id: str) -> int:
        """Take a model away, with what has come of it; return the bytes freed.

        A linked file stays where it is.
        """
        ...

    def orphans(self) -> Sequence[Path]:
        """Return what lies in the folder and belongs to no model, or to one that is here anyway."""
        ...

    def foreign(self) -> Sequence[Foreign]:
        """Return the model files of other programs on this machine that aren't linked yet."""
        ...


class NeedsAgreement(ConfigError):
    """A model's licence isn't a free one, and the person hasn't agreed to it."""

    def __init__(self, name: str, licence: str) -> None:
        super().__init__(
            f"{name} comes under the licence {licence or 'of nobody knows which kind'}.",
            "Read it first; `--agree` says that you accept it.",
        )
        self.licence = licence


class DoesNotFit(ModelFileError):
    """A model won't fit this machine, and the person hasn't insisted."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.why, f"{verdict.mend} `--force` fetches it anyway.".strip())
        self.verdict = verdict


class Library:
    """The models on this machine, and how others come to it.

    `entries` reads the catalogue, `look` this machine as it is now. Nothing connects anywhere but
    `want` and `fetch`, and neither does in offline mode.
    """

    def __init__(
        self,
        shelf: Shelf,
        supply: Supply,
        entries: Callable[[], Sequence[Entry]],
        look: Callable[[], Machine],
        *,
        context: int = 8192,
        offline: bool = False,
    ) -> None:
        self._shelf = shelf
        self._supply = supply
        self._entries = entries
        self._look = look
        self._context = context
        self.offline = offline

    # What there is

    def models(self) -> Sequence[Held]:
        """Return the models on this machine, and those on their way."""
        raise NotImplementedError

    def get(self, id: str) -> Held:
        """Return one of them. Raises ConfigError that names the nearest."""
        raise NotImplementedError

    def entries(self) -> Mapping[str, Entry]:
        """Return the catalogue by id."""
        raise NotImplementedError

    def foreign(self) -> Sequence[Foreign]:
        """Return model files of other programs that could be used where they lie."""
        raise NotImplementedError

    async def verdict(self, id: str) -> Verdict:
        """Tell whether a model (of the catalogue, or here) fits this machine now."""
        raise NotImplementedError

    async def recommend(self, speed: float | None = None) -> Recommendation:
        """Return what suits this machine; `speed` is the starter model's here, in tokens/s."""
        raise NotImplementedError

    # What comes

    async def want(
        self,
        model: str,
        roles: Sequence[Role] | None = None,
        *,
        agreed: bool = False,
        force: bool = False,
    ) -> Held:
        """Look a model up and record that it is wanted; `fetch` then gets it.

        `model` is an id of the catalogue, `hf.co/USER/REPO[:QUANT]` (or a file's name there) or an
        address. `roles` None are the catalogue's. One that is here already comes back as it is.
        Raises NeedsAgreement, DoesNotFit, ModelFileError without room on the disk, ConfigError for
        what doesn't exist and in offline mode.
        """
        raise NotImplementedError

    def fetch(self, id: str) -> AsyncGenerator[Progress | Held]:
        """Fetch a wanted model, or go on with it; yields the model when it has arrived.

        Closing the generator stops it; what has come is kept.
        """
        raise NotImplementedError

    def pause(self, id: str, paused: bool = True) -> Held:
        """Record that a download shall not go on by itself (or that it shall)."""
        raise NotImplementedError

    def add(
        self, path: Path, *, id: str = "", link: bool = False, force: bool = False
    ) -> AsyncGenerator[Progress | Held]:
        """Take a GGUF file, or a folder that `export` made; copied unless `link`.

        Yields each model when it has been verified. Raises ModelFileError and ConfigError.
        """
        raise NotImplementedError

    # What goes, and what is looked after

    def remove(self, id: str) -> int:
        """Take a model away; return the bytes freed. Conversations with it stay as they are."""
        raise NotImplementedError

    def prune(self) -> Sequence[tuple[Path, int]]:
        """Delete what belongs to no model; return what it was, and its bytes."""
        raise NotImplementedError

    def verify(self, id: str) -> AsyncGenerator[Progress | Held]:
        """Read a model's file again; yields how it stands then."""
        raise NotImplementedError

    def export(self, ids: Sequence[str], folder: Path) -> AsyncGenerator[Progress | Path]:
        """Copy models into a folder that `add` can take elsewhere; yields each file written."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Let go of processes; downloads stop, and can go on later."""
        await self._supply.aclose()
