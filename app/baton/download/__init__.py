"""Where model files and updates come from: hubs, addresses and folders, through a child process."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.download.hub_source import HubSource as HubSource, ReleaseSource as ReleaseSource
    from baton.download.messages import Phase as Phase, Progress as Progress
    from baton.download.releases import FLAVOURS as FLAVOURS, GPUS as GPUS, is_address as is_address
else:
    __getattr__ = lazy_exports(
        __name__,
        hub_source="HubSource ReleaseSource",
        messages="Phase Progress",
        releases="FLAVOURS GPUS is_address",
    )
