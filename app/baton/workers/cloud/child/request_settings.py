"""What a call asks for besides its text, as its model takes it: the table's choice, and what was
learned from refusals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from baton.ipc.parent_channel import Failure
from baton.workers.cloud.child.cloud_call import CloudCall
from baton.workers.cloud.model_families import ModelFamily, family_of
from baton.workers.cloud.price_table import ModelFacts, known_facts

SHORT_ANSWER_TOKENS = 2048
"""With a smaller cap, a Gemini is asked for the least thinking in place of little."""


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """The settings of one request. `thinking` are the body's fields that ask for it.

    `cap_field` is "" where the writer knows it; `extra` are further fields of the body, `said` of
    messages, by whose they are.
    """

    thinking: dict[str, Any] = field(default_factory=dict)
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    seed_field: str = "seed"
    stop: tuple[str, ...] = ()
    schema: str = ""
    cap_field: str = ""
    system: str = "system"
    wants_usage: bool = True
    extra: dict[str, Any] = field(default_factory=dict)
    said: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def sampling(self) -> dict[str, float]:
        """The fields of Chat Completions and Responses that say how words are drawn."""
        fields = {"temperature": self.temperature, "top_p": self.top_p}
        return {name: value for name, value in fields.items() if value is not None}

    def messages(self, call: CloudCall) -> list[dict[str, str]]:
        """Return a call's messages, the system's with the role that the model takes.

        As the user's it stands before the first prompt: templates that know no system's role want
        user and assistant to alternate.
        """
        roles = {"system": self.system}
        found: list[dict[str, str]] = []
        for said in call.messages:
            role = roles.get(said["role"], said["role"])
            message = {**said, **self.said.get(said["role"], {}), "role": role}
            if found and self.system == role == "user" == found[-1]["role"]:
                message["content"] = f"{found.pop()['content']}\n\n{message['content']}"
            found.append(message)
        return found


def settings_of(call: CloudCall, effort: str) -> RequestSettings:
    """Return what is asked for at a setting of `effort`; note in the call what of it will be.

    A schema is left out where the model isn't known to keep to one. Raises Failure for what isn't
    taken.
    """
    name = f"{call.provider}/{call.model}"
    family = family_of(name) if call.through_library else ModelFamily()
    known = known_facts(name) if call.through_library else None
    call.set_dialect(family.dialect)
    call.may_think_unseen = known is None or known.reasoning or family.thinks
    if call.through_library and not (family.schema and known is not None and known.schema):
        call.schema = ""
    call.schema = _kept(call.learned, "schema", call.schema) or ""
    level, thinking = _thinking(call, family, effort, known)
    if call.temperature is not None and call.temperature > family.hottest:
        raise Failure(
            "ConfigError",
            f"{call.who} takes a temperature from 0 to {family.hottest:g} for {call.model}, not"
            f" {call.temperature:g}. Nothing was sent.",
            "Ask for one in that range, or choose another worker.",
        )
    is_makers = call.provider != "openai" or call.is_openais  # others speak it less exactly
    is_thinking = level not in ("", "none")
    takes = family.sampling == "both" or (family.sampling != "none" and not is_thinking)
    temperature = _kept(call.learned, "temperature", call.temperature if takes else None)
    top_p = _kept(call.learned, "top_p", call.top_p if takes else None)
    if temperature is not None and (
        family.sampling == "one" or (temperature == 0 and not family.greedy_top_p)
    ):
        top_p = None
    return RequestSettings(
        thinking=thinking,
        temperature=temperature,
        top_p=top_p,
        seed=_kept(call.learned, "seed", call.seed if family.seed else None),
        seed_field=family.seed,
        stop=_kept(call.learned, "stop", () if call.through_library else call.stop) or (),
        schema=call.schema,
        cap_field=call.learned.get("cap", family.cap if is_makers else ""),
        system=call.learned.get("system", family.system),
        wants_usage=family.usage and "usage" not in call.learned,
        extra=_kept(call.learned, "extra", family.extra) or {},
        said=family.said,
    )


def _thinking(
    call: CloudCall, family: ModelFamily, effort: str, known: ModelFacts | None
) -> tuple[str, dict[str, Any]]:
    """Return the level of thinking that is asked for, and the fields that ask for it."""
    learned = call.learned.get("effort")
    if learned == "" or (family.must_reason and not (known is not None and known.reasoning)):
        return "", {}
    if learned:
        return learned, family.fill(learned)
    if call.dialect == "gemini" and call.cap < SHORT_ANSWER_TOKENS and effort == "low":
        effort = "minimal"
    return family.ask_for(family.level(effort), call.cap)


def _kept(learned: Mapping[str, str], name: str, value: Any) -> Any:
    """Return a setting's value, or None where the model refused the setting before."""
    return None if name in learned else value
