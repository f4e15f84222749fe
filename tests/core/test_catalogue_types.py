"""Who takes which role, and what the settings then say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from baton.core.catalogue_types import (
    ModelRole,
    arrival_text,
    recommended_roles,
    role_holders,
    roles_on_arrival,
    settings_for_roles,
    settings_without_model,
)
from baton.platform.settings import load_settings, write_settings

ROLES = st.lists(st.sampled_from(list(ModelRole)), unique=True)


def test_a_model_takes_the_roles_that_only_the_starter_has() -> None:
    held = {
        ModelRole.CHAT: "small",
        ModelRole.CONDUCTOR: "",
        ModelRole.CODER: "mine",
        ModelRole.REASONING: "",
    }
    suited = (ModelRole.CHAT, ModelRole.CONDUCTOR, ModelRole.CODER)
    assert roles_on_arrival((), suited, held) == (ModelRole.CHAT,)
    assert roles_on_arrival((ModelRole.CODER,), suited, held) == (ModelRole.CODER,), (
        "the person said so"
    )
    assert (
        roles_on_arrival(
            (), suited, {ModelRole.CHAT: "other", ModelRole.CONDUCTOR: "c", ModelRole.CODER: "d"}
        )
        == ()
    )


@given(suited=ROLES)
def test_a_model_conducts_only_where_the_user_says_so(suited: list[ModelRole]) -> None:
    assert ModelRole.CONDUCTOR not in roles_on_arrival((), suited, {})
    assert ModelRole.CONDUCTOR not in recommended_roles(suited)
    assert roles_on_arrival((ModelRole.CONDUCTOR,), suited, {}) == (ModelRole.CONDUCTOR,)


@given(roles=ROLES)
def test_roles_are_settings_and_read_back(
    tmp_path_factory: pytest.TempPathFactory, roles: list[ModelRole]
) -> None:
    file: Path = tmp_path_factory.mktemp("config") / "config.toml"
    write_settings(file, settings_for_roles("new", roles))
    settings = load_settings(file, environ={})
    found = role_holders(settings.worker, settings.conductor, settings.prefer)
    for role in ModelRole:
        assert (found[role] == "new") == (role in roles)
    write_settings(file, settings_without_model("new", found))
    settings = load_settings(file, environ={})
    assert settings.worker == "small"
    assert settings.conductor == ""
    assert settings.prefer == {}


def test_a_role_of_two_kinds_is_nobodys_where_they_differ() -> None:
    assert role_holders("small", "", {"math": "a", "reasoning": "b"})[ModelRole.REASONING] == ""
    assert role_holders("small", "", {"math": "a", "reasoning": "a"})[ModelRole.REASONING] == "a"


def test_an_arrival_is_described_in_a_line() -> None:
    assert arrival_text("q", "Qwen", (ModelRole.CHAT,)) == "Qwen is here and answers from now on."
    assert arrival_text("q", "Qwen", (ModelRole.CONDUCTOR, ModelRole.CHAT, ModelRole.CODER)) == (
        "Qwen is here and answers, draws plans and writes code from now on."
    )
    assert arrival_text("q", "Qwen", ()) == "Qwen is here; `-m q` asks it."


def test_one_that_could_conduct_is_measured_by_a_command() -> None:
    suited = (ModelRole.CHAT, ModelRole.CONDUCTOR)
    said = arrival_text("q", "Qwen", (ModelRole.CHAT,), suited)
    assert said.startswith("Qwen is here and answers from now on. `baton bench --conductor`")
    assert "bench" not in arrival_text("q", "Qwen", (ModelRole.CONDUCTOR,), suited)
