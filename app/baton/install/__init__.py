"""The packaged binary as it lies on this machine: changing it, going back, and taking it away."""

from baton.adapters.installed.installation import Installation
from baton.adapters.installed.removing import Belongings, Thing

__all__ = ["Belongings", "Installation", "Thing"]
