"""What answers: models on this machine, remote models, and tools."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.workers.attachments import (
        decode_text as decode_text,
        mentioned_files as mentioned_files,
        read_attachment as read_attachment,
    )
    from baton.workers.cloud import NEEDED as NEEDED, CloudWorker as CloudWorker, Gateway as Gateway
    from baton.workers.local import (
        STARTER as STARTER,
        LlamaInfo as LlamaInfo,
        find_model as find_model,
        probe as probe,
        starter as starter,
    )
    from baton.workers.scripted_worker import ScriptedWorker as ScriptedWorker
    from baton.workers.template_files import read_templates as read_templates
    from baton.workers.tools import (
        ToolWorker as ToolWorker,
        build_tools as build_tools,
        sandbox as sandbox,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        attachments="decode_text mentioned_files read_attachment",
        cloud="CloudWorker Gateway NEEDED",
        local="LlamaInfo STARTER find_model probe starter",
        scripted_worker="ScriptedWorker",
        template_files="read_templates",
        tools="ToolWorker build_tools sandbox",
    )
