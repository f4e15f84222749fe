"""Workers elsewhere: every call to them goes through the gateway child."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.workers.cloud.gateway import NEEDED, Gateway, Patience
    from baton.workers.cloud.worker import CloudWorker
else:
    __getattr__ = lazy_exports(
        __name__,
        gateway="NEEDED Gateway Patience",
        worker="CloudWorker",
    )

__all__ = ["NEEDED", "CloudWorker", "Gateway", "Patience"]
