"""Workers elsewhere: every call to them goes through the gateway child."""

from baton.adapters.cloud.gateway import NEEDED, Gateway, Patience
from baton.adapters.cloud.worker import CloudWorker

__all__ = ["NEEDED", "CloudWorker", "Gateway", "Patience"]
