"""The installation of this very program, where it is a packaged binary."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import baton
from baton.core.errors import ConfigError
from baton.platform import build_info as building
from baton.platform.settings import Paths

if TYPE_CHECKING:
    from baton.install import Installation, InstalledFiles
    from baton.install.updater import Updater


def updating(paths: Paths, *, offline: bool = False) -> Updater:
    """Return what changes this installation. Raises ConfigError where it isn't one."""
    from baton.download import ReleaseSource
    from baton.install.updater import Updater

    installed = installation(paths)
    built = building.build_info()
    assert built is not None, "an installation was built"
    releases = ReleaseSource(environ=dict(os.environ))
    return Updater(built, installed, releases, offline=offline)


def belongings(paths: Paths) -> InstalledFiles:
    """Return what belongs to this installation. Raises ConfigError where it isn't one."""
    from baton.install import InstalledFiles

    place = installation(paths).place
    return InstalledFiles(place, paths.config, paths.data, paths.state, paths.cache)


def installation(paths: Paths) -> Installation:
    """Return this installation. Raises ConfigError where `baton self` can't change it."""
    from baton.install import Installation

    file = building.binary_path()
    if building.build_info() is None or file is None:
        raise _not_packaged(paths)
    if not os.environ.get(building.BINARY_VARIABLE):
        raise ConfigError(
            f"This Baton is a folder, {file.parent}, which `baton self` doesn't change.",
            "A newer release's folder takes its place; to be rid of it, delete it."
            f" {_yours(paths)}",
        )
    return Installation(file, paths.state, paths.cache)


def _not_packaged(paths: Paths) -> ConfigError:
    package = Path(baton.__file__).resolve().parent
    root = package.parents[1]
    if (root / "pyproject.toml").is_file():
        return ConfigError(
            f"This Baton runs from a checkout, {root}, which `baton self` doesn't change.",
            "`git pull` there gets a newer one, `git checkout` an older one; to be rid of it,"
            f" delete that folder. {_yours(paths)}",
        )
    return ConfigError(
        f"This Baton was installed as a Python package, in {package}.",
        "`pip install -U baton` gets a newer one, `pip uninstall baton` takes it away."
        f" {_yours(paths)}",
    )


def _yours(paths: Paths) -> str:
    folders = dict.fromkeys(map(str, (paths.config, paths.data, paths.state, paths.cache)))
    return f"Models, history and settings are in {', '.join(folders)}."
