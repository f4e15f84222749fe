"""What answers: models on this machine, remote models, and tools."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.workers.attachments import (
        decode_text as decode_text,
        read_attachment as read_attachment,
    )
    from baton.workers.file_mentions import (
        distinct_files as distinct_files,
        find_mentions as find_mentions,
    )
    from baton.workers.scripted_worker import ScriptedWorker as ScriptedWorker
    from baton.workers.template_files import read_templates as read_templates
else:
    __getattr__ = lazy_exports(
        __name__,
        attachments="decode_text read_attachment",
        file_mentions="distinct_files find_mentions",
        scripted_worker="ScriptedWorker",
        template_files="read_templates",
    )
