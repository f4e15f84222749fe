"""Workers on this machine: a child process per loaded model, and what keeps watch over them."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.workers.local.local_servers import (
        TIMEOUT_SECONDS as TIMEOUT_SECONDS,
        ServerModel as ServerModel,
        ask_engines as ask_engines,
        find_server_models as find_server_models,
        list_server_models as list_server_models,
        merge_server_models as merge_server_models,
        suggest_id as suggest_id,
    )
    from baton.workers.local.messages import LlamaInfo as LlamaInfo
    from baton.workers.local.model_file import (
        STARTER as STARTER,
        ModelFile as ModelFile,
        conductor_adapter as conductor_adapter,
        find_model as find_model,
        read_model_header as read_model_header,
        starter as starter,
    )
    from baton.workers.local.model_memory import (
        LoadedModel as LoadedModel,
        Memory as Memory,
        list_loaded_models as list_loaded_models,
        memory_of_process as memory_of_process,
    )
    from baton.workers.local.model_process import (
        LoadSettings as LoadSettings,
        ModelProcess as ModelProcess,
    )
    from baton.workers.local.native_probe import (
        check_model as check_model,
        probe_gpus as probe_gpus,
        probe_llama as probe_llama,
    )
    from baton.workers.local.speed_benchmark import (
        is_machine_busy as is_machine_busy,
        measure_speed as measure_speed,
        try_model as try_model,
    )
    from baton.workers.local.worker import (
        GenerationSettings as GenerationSettings,
        LocalWorker as LocalWorker,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        local_servers=(
            "ServerModel TIMEOUT_SECONDS ask_engines find_server_models list_server_models"
            " merge_server_models suggest_id"
        ),
        messages="LlamaInfo",
        model_file="ModelFile STARTER conductor_adapter find_model read_model_header starter",
        model_memory="LoadedModel Memory list_loaded_models memory_of_process",
        model_process="LoadSettings ModelProcess",
        native_probe="check_model probe_gpus probe_llama",
        speed_benchmark="is_machine_busy measure_speed try_model",
        worker="GenerationSettings LocalWorker",
    )
