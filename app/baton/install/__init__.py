"""The packaged binary on this machine: update, rollback and removal."""

from baton.install.installation import own_installation as own_installation
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
