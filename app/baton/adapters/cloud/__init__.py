"""Workers elsewhere: every call to them goes through the gateway child."""

from baton.adapters.cloud.gateway import Gateway, Patience
from baton.adapters.cloud.worker import CloudWorker

__all__ = ["CloudWorker", "Gateway", "Patience"]
