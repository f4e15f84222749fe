"""Workers on this machine: a child process per loaded model, and what keeps watch over them."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.workers.local.loaded_models import Running as Running, running as running
    from baton.workers.local.local_servers import LIMIT as LIMIT, Found as Found, engines as engines
    from baton.workers.local.messages import LlamaInfo as LlamaInfo
    from baton.workers.local.model_file import (
        STARTER as STARTER,
        ModelFile as ModelFile,
        check_gguf as check_gguf,
        conductor_adapter as conductor_adapter,
        find_model as find_model,
        read_file as read_file,
        starter as starter,
    )
    from baton.workers.local.model_memory import Memory as Memory
    from baton.workers.local.model_process import (
        LoadSettings as LoadSettings,
        ModelProcess as ModelProcess,
    )
    from baton.workers.local.native_probe import (
        check_model as check_model,
        gpus as gpus,
        probe as probe,
    )
    from baton.workers.local.speed_benchmark import measure as measure
    from baton.workers.local.worker import (
        GenerationSettings as GenerationSettings,
        LocalWorker as LocalWorker,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        loaded_models="Running running",
        local_servers="Found LIMIT engines",
        messages="LlamaInfo",
        model_file="ModelFile STARTER check_gguf conductor_adapter find_model read_file starter",
        model_memory="Memory",
        model_process="LoadSettings ModelProcess",
        native_probe="check_model gpus probe",
        speed_benchmark="measure",
        worker="GenerationSettings LocalWorker",
    )
