"""Who takes which role, and what the settings then say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.domain.catalogue import Role
from baton.engine.roles import changes, holders, taken, told, vacated
from baton.settings import load, write

ROLES = st.lists(st.sampled_from(list(Role)), unique=True)


def test_a_model_takes_what_nobody_has_but_the_starter() -> None:
    held = {Role.CHAT: "small", Role.CONDUCTOR: "", Role.CODER: "mine", Role.REASONING: ""}
    suited = (Role.CHAT, Role.CONDUCTOR, Role.CODER)
    assert taken((), suited, held) == (Role.CHAT, Role.CONDUCTOR)
    assert taken((Role.CODER,), suited, held) == (Role.CODER,), "the person said so"
    assert taken((), suited, {Role.CHAT: "other", Role.CONDUCTOR: "c", Role.CODER: "d"}) == ()


@given(roles=ROLES)
def test_roles_are_settings_and_read_back(
    tmp_path_factory: pytest.TempPathFactory, roles: list[Role]
) -> None:
    file: Path = tmp_path_factory.mktemp("config") / "config.toml"
    write(file, changes("new", roles))
    settings = load(file, environ={})
    found = holders(settings.worker, settings.conductor, settings.prefer)
    for role in Role:
        assert (found[role] == "new") == (role in roles)
    write(file, vacated("new", found))
    settings = load(file, environ={})
    assert settings.worker == "small"
    assert settings.conductor == ""
    assert settings.prefer == {}


def test_a_role_of_two_kinds_is_nobodys_where_they_differ() -> None:
    assert holders("small", "", {"math": "a", "reasoning": "b"})[Role.REASONING] == ""
    assert holders("small", "", {"math": "a", "reasoning": "a"})[Role.REASONING] == "a"


def test_an_arrival_is_told_in_a_line() -> None:
    assert told("q", "Qwen", (Role.CHAT,)) == "Qwen is here and answers from now on."
    assert told("q", "Qwen", (Role.CONDUCTOR, Role.CHAT, Role.CODER)) == (
        "Qwen is here and answers, draws plans and writes code from now on."
    )
    assert told("q", "Qwen", ()) == "Qwen is here; `-m q` asks it."
