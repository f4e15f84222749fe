"""Where model files and updates come from: hubs, addresses and folders, through a child process."""

from baton.download.hub_source import HubSupply
from baton.download.release_source import SignedReleases

__all__ = ["HubSupply", "SignedReleases"]
