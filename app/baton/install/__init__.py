"""The packaged binary on this machine: update, rollback and removal."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.install.installation import (
        Installation as Installation,
        own_installation as own_installation,
    )
    from baton.install.uninstaller import (
        InstalledFiles as InstalledFiles,
        RemovableFiles as RemovableFiles,
        own_files as own_files,
    )
    from baton.install.updater import (
        FoundRelease as FoundRelease,
        ReleaseStanding as ReleaseStanding,
        Updater as Updater,
        UpdateResult as UpdateResult,
        own_updater as own_updater,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        installation="Installation own_installation",
        uninstaller="InstalledFiles RemovableFiles own_files",
        updater="FoundRelease ReleaseStanding UpdateResult Updater own_updater",
    )
