"""The packaged binary as it lies on this machine: changing it, going back, and taking it away."""

from baton.install.installation import Installation
from baton.install.uninstaller import Belongings, Thing

__all__ = ["Belongings", "Installation", "Thing"]
