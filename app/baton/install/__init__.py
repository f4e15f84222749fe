"""The packaged binary as it lies on this machine: changing it, going back, and taking it away."""

from baton.install.installation import Installation
from baton.install.uninstaller import InstalledFiles, RemovableFiles

__all__ = ["Installation", "InstalledFiles", "RemovableFiles"]
