"""What a model refused to be asked with: the next command remembers it, and `why` names it."""

from __future__ import annotations

from support.command_line import Call, write_settings
from support.fake_cloud import FAR_SETTINGS, Cloud, Fault, ReceivedRequest


def refuse_heat(received: ReceivedRequest) -> Fault | None:
    """Return the fault of a model that takes no temperature."""
    return Fault.NO_SETTING if "temperature" in received.json else None


def test_why_names_it_and_the_next_command_remembers(call: Call) -> None:
    with Cloud(choose=refuse_heat) as cloud:
        write_settings(FAR_SETTINGS.format(url=cloud.base("server")) + "temperature = 0.3\n")
        for posts in (2, 3):
            done = call("ask", "-m", "far", "--budget", "0.5", "Say hello.")
            assert done.code == 0, done.err
            assert cloud.posts == posts
            why = call("why").out
            assert "far was asked without its temperature, since its model refused that." in why
