"""The packaged binary on this machine: update, rollback and removal."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.install.installation import Installation as Installation
    from baton.install.uninstaller import (
        InstalledFiles as InstalledFiles,
        RemovableFiles as RemovableFiles,
    )
    from baton.install.updater import (
        FoundRelease as FoundRelease,
        ReleaseStanding as ReleaseStanding,
        Updater as Updater,
        UpdateResult as UpdateResult,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        installation="Installation",
        uninstaller="InstalledFiles RemovableFiles",
        updater="FoundRelease ReleaseStanding UpdateResult Updater",
    )
