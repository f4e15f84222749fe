"""An address of a home network for a test, and no other way out.

    assert at_home(scenario) == ...     # scenario(address) runs in a process of its own

The process has a network namespace of its own, whose loopback device has the address as well. Where
the kernel forbids that, the address is a second one of the real loopback device, and
`labels.reach` is changed to call it lan; the summary of the run says so.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

HOME = "10.255.255.1"
SECOND = "127.0.0.2"
_PREPARE = f'ip addr add {HOME}/32 dev lo && ip link set lo up && exec "$@"'
_NAMESPACE = ("unshare", "-rn", "sh", "-c", _PREPARE, "sh")

replaced: list[str] = []
"""The scenarios that had to use the second loopback address."""


@cache
def can_have_namespace() -> bool:
    """Whether a process here may have a network of its own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


def at_home(scenario: Callable[[str], Any]) -> Any:
    """Run a function of a test module with an address of a home network; return its result."""
    name = f"{scenario.__module__.removeprefix('tests.')}:{scenario.__name__}"
    command = [sys.executable, "-P", "-m", "support.home_network", name]
    if can_have_namespace():
        command = [*_NAMESPACE, *command, HOME]
    else:
        replaced.append(name)
        command.append(SECOND)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _call_lan(address: str) -> None:
    """Have an address of the real loopback device count as one of the home network."""
    from baton.core import labels

    real = labels.address_label
    labels.address_label = lambda url: labels.Label.LAN if address in url else real(url)


def main() -> None:
    """Run the scenario that is named first, with the address that is named second."""
    name, address = sys.argv[1:]
    if address == SECOND:
        _call_lan(address)
    module, _, function = name.partition(":")
    print(json.dumps(getattr(importlib.import_module(module), function)(address)))


if __name__ == "__main__":
    main()
