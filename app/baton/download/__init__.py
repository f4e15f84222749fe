"""Where model files and updates come from: hubs, addresses and folders, through a child process."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.download.hub_source import HubSource
    from baton.download.release_source import ReleaseSource
else:
    __getattr__ = lazy_exports(
        __name__,
        release_source="ReleaseSource",
        hub_source="HubSource",
    )

__all__ = ["HubSource", "ReleaseSource"]
