"""Remote workers: every call to them goes through the gateway process."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.workers.cloud.gateway import GATEWAY_VARIABLES, CallTimeouts, Gateway
    from baton.workers.cloud.worker import CloudWorker
else:
    __getattr__ = lazy_exports(
        __name__,
        gateway="GATEWAY_VARIABLES Gateway CallTimeouts",
        worker="CloudWorker",
    )

__all__ = ["GATEWAY_VARIABLES", "CallTimeouts", "CloudWorker", "Gateway"]
