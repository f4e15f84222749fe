"""The packaged binary on this machine: update, rollback and removal."""

from baton.install.installation import Installation
from baton.install.uninstaller import InstalledFiles, RemovableFiles

__all__ = ["Installation", "InstalledFiles", "RemovableFiles"]
