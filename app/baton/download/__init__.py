"""Where model files and updates come from: hubs, addresses and folders, through a child process."""

from baton.adapters.downloads.releases import SignedReleases
from baton.adapters.downloads.supply import HubSupply

__all__ = ["HubSupply", "SignedReleases"]
