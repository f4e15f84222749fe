"""Tools as workers: what computes instead of writing."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.workers.tools.worker import (
        RequestReader as RequestReader,
        ToolWorker as ToolWorker,
        build_tools as build_tools,
        sandbox as sandbox,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        worker="RequestReader ToolWorker build_tools sandbox",
    )
