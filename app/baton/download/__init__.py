"""Where model files and updates come from: hubs, addresses and folders, through a child process."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.download.hub_source import HubSource, ReleaseSource
else:
    __getattr__ = lazy_exports(__name__, hub_source="HubSource ReleaseSource")

__all__ = ["HubSource", "ReleaseSource"]
