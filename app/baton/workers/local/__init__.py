"""Workers on this machine: a child process per loaded model, and what keeps watch over them."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.workers.local.messages import LlamaInfo
    from baton.workers.local.model_file import (
        STARTER,
        ModelFile,
        check_gguf,
        conductor_adapter,
        find_model,
        starter,
    )
    from baton.workers.local.model_memory import Memory
    from baton.workers.local.model_process import LoadSettings, ModelProcess
    from baton.workers.local.native_probe import check_model, probe_gpus, probe_library
    from baton.workers.local.worker import GenerationSettings, LocalWorker
else:
    __getattr__ = lazy_exports(
        __name__,
        model_file="STARTER ModelFile check_gguf conductor_adapter find_model starter",
        messages="LlamaInfo",
        model_memory="Memory",
        model_process="LoadSettings ModelProcess",
        native_probe="check_model probe_gpus probe_library",
        worker="GenerationSettings LocalWorker",
    )

__all__ = [
    "STARTER",
    "GenerationSettings",
    "LlamaInfo",
    "LoadSettings",
    "LocalWorker",
    "Memory",
    "ModelFile",
    "ModelProcess",
    "check_gguf",
    "check_model",
    "conductor_adapter",
    "find_model",
    "probe_gpus",
    "probe_library",
    "starter",
]
