"""Workers elsewhere: every call to them goes through the gateway child."""

from baton.workers.cloud.gateway import NEEDED, Gateway, Patience
from baton.workers.cloud.worker import CloudWorker

__all__ = ["NEEDED", "CloudWorker", "Gateway", "Patience"]
