"""Tools as workers: what computes instead of writing."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.workers.tools.request_reader import RequestReader
    from baton.workers.tools.worker import Toolbox, ToolWorker, sandbox, tools
else:
    __getattr__ = lazy_exports(
        __name__,
        request_reader="RequestReader",
        worker="ToolWorker Toolbox sandbox tools",
    )

__all__ = ["RequestReader", "ToolWorker", "Toolbox", "sandbox", "tools"]
