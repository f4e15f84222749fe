"""Workers on this machine: a child process per loaded model, and what keeps watch over them."""

from baton.workers.local.model_file import (
    STARTER,
    ModelFile,
    check_gguf,
    conductor_adapter,
    find_model,
    starter,
)
from baton.workers.local.model_memory import Memory
from baton.workers.local.native_probe import check_model, gpus, probe
from baton.workers.local.worker import LocalWorker, Manner

__all__ = [
    "STARTER",
    "LocalWorker",
    "Manner",
    "Memory",
    "ModelFile",
    "check_gguf",
    "check_model",
    "conductor_adapter",
    "find_model",
    "gpus",
    "probe",
    "starter",
]
