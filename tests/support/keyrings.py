"""Keyrings for the tests: one that works, and some as they are found on real machines."""

from __future__ import annotations

import time

import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from baton.platform import secrets


def use(monkeypatch: pytest.MonkeyPatch, keyring: KeyringBackend) -> None:
    """Make it the system's own keyring, for this process."""
    monkeypatch.setattr(secrets, "_load_keyring", lambda: keyring)


class MemoryKeyring(KeyringBackend):
    """A keyring in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.kept[service, username]


class LockedKeyring(MemoryKeyring):
    """One that says no, quoting what it was given."""

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked("locked")

    def set_password(self, service: str, username: str, password: str) -> None:
        raise OSError(f"no place for {password}")


class UnansweredKeyring(MemoryKeyring):
    """One that waits to be unlocked by a user who isn't there."""

    def get_password(self, service: str, username: str) -> str | None:
        time.sleep(0.5)
        return None
