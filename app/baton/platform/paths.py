"""Where Baton keeps its things. Light to import: the first that a start asks for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from baton.core.errors import ConfigError


class Paths:
    """Where Baton keeps its things. Folders are made when something is first written to them."""

    def __init__(self, config: Path, data: Path, state: Path, cache: Path) -> None:
        self.config, self.data, self.state, self.cache = config, data, state, cache
        self.config_file = config / "config.toml"
        """The settings, which the user edits."""
        self.keys_file = config / "keys.toml"
        """Keys as plain text, where there is no keyring and the user said yes to that."""
        self.database = data / "baton.db"
        """History and traces."""
        self.ledger = data / "ledger.db"
        """Money, and what left this machine."""
        self.models = data / "models"
        """The models that were fetched, each in a folder of its own."""
        self.server_tokens = data / "server-tokens.json"
        """What other programs show to use `baton serve`."""
        self.ledger_records = state / "ledgers"
        """How far each ledger had come: reveals one that is lost or older than it was."""
        self.learned_settings = state / "learned-settings.json"
        """What remote models refused to be asked with."""
        self.lender_socket = state / "lender.sock"
        """Where the background process lends its models, if there is one."""
        self.front_socket = state / "front.sock"
        """Where its fork server waits for an `ask`, if there is one."""
        self.logs = state / "log"
        """Crash reports and the children's own prints."""

    @property
    def has_lender(self) -> bool:
        """Whether a background process may be there, and may be asked."""
        return os.access(self.lender_socket, os.F_OK)

    def id(self) -> str:
        """Return an id that no other home has, here or on another machine; it names nobody."""
        import platform
        from hashlib import sha256

        place: tuple[object, ...] = (platform.node(), os.path.realpath(self.data))
        with suppress(OSError):
            status = self.data.stat()
            place = (*place, status.st_dev, status.st_ino)
        return sha256(repr(place).encode("utf-8", "replace")).hexdigest()[:16]


def find_paths(environ: Mapping[str, str] = os.environ) -> Paths:
    """Return Baton's folders: all under BATON_HOME if that is set, else where the system wants.

    Raises ConfigError for a BATON_HOME in the home of an unknown user, and without any home.
    """
    if home := environ.get("BATON_HOME"):
        try:
            root = Path(home).expanduser().absolute()
        except RuntimeError as error:
            from baton.core.sanitiser import one_line

            raise ConfigError(
                f"BATON_HOME ({one_line(home)}) names the home of a user who doesn't exist.",
                "Write the path in full.",
            ) from error
        return Paths(root / "config", root / "data", root / "state", root / "cache")
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("baton", appauthor=False)
    try:
        return Paths(
            dirs.user_config_path, dirs.user_data_path, dirs.user_state_path, dirs.user_cache_path
        )
    except RuntimeError as error:
        from baton.core.sanitiser import one_line

        what = f"HOME is {one_line(environ['HOME'])!r}" if environ.get("HOME") else "HOME isn't set"
        raise ConfigError(
            f"{what}, and this user has no home folder, so Baton has no place for its files.",
            "Set HOME to a whole path, or BATON_HOME to a folder of yours.",
        ) from error
