"""Where this process runs: at a person's terminal, in a container, or in an automatic build."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

CONTAINER_FILES = (".dockerenv", "run/.containerenv")
CONTAINER_VARIABLES = ("container", "KUBERNETES_SERVICE_HOST")

CI_VARIABLES = ("BUILD_NUMBER", "CI", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "TF_BUILD")
"""What automatic builds set; "" and "false" count as not set."""


def is_interactive() -> bool:
    """Whether a person is at the terminal: never in a pipe, in cron, or as a service."""
    return os.isatty(0) and os.isatty(2)


def is_in_container(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> bool:
    """Whether this runs in a container, where processes that stay would keep it from ending."""
    if any(environ.get(name) for name in CONTAINER_VARIABLES):
        return True
    return any((root / name).exists() for name in CONTAINER_FILES)


def is_in_ci(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this runs in an automatic build."""
    return any(environ.get(name, "").lower() not in ("", "0", "false") for name in CI_VARIABLES)


def may_leave_process(environ: Mapping[str, str] = os.environ, root: Path = Path("/")) -> bool:
    """Whether a process may stay behind when this one ends."""
    return is_interactive() and not (is_in_ci(environ) or is_in_container(environ, root))
