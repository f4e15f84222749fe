"""Who takes which role, and what the settings then say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baton.core.catalogue_types import Role
from baton.core.model_roles import changes, holders, recommended_roles, taken, told, vacated
from baton.platform.settings import load, write

ROLES = st.lists(st.sampled_from(list(Role)), unique=True)


def test_a_model_takes_what_nobody_has_but_the_starter() -> None:
    held = {Role.CHAT: "small", Role.CONDUCTOR: "", Role.CODER: "mine", Role.REASONING: ""}
    suited = (Role.CHAT, Role.CONDUCTOR, Role.CODER)
    assert taken((), suited, held) == (Role.CHAT,)
    assert taken((Role.CODER,), suited, held) == (Role.CODER,), "the person said so"
    assert taken((), suited, {Role.CHAT: "other", Role.CONDUCTOR: "c", Role.CODER: "d"}) == ()


@given(suited=ROLES)
def test_a_model_conducts_only_where_the_person_says_so(suited: list[Role]) -> None:
    assert Role.CONDUCTOR not in taken((), suited, {})
    assert Role.CONDUCTOR not in recommended_roles(suited)
    assert taken((Role.CONDUCTOR,), suited, {}) == (Role.CONDUCTOR,)


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


def test_one_that_could_conduct_is_measured_by_a_command() -> None:
    suited = (Role.CHAT, Role.CONDUCTOR)
    said = told("q", "Qwen", (Role.CHAT,), suited)
    assert said.startswith("Qwen is here and answers from now on. `baton bench --conductor`")
    assert "bench" not in told("q", "Qwen", (Role.CONDUCTOR,), suited)
