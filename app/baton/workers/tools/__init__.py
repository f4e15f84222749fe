"""Tools as workers: what computes instead of writing."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.workers.tools.worker import RequestReader, Toolbox, ToolWorker, build_tools, sandbox
else:
    __getattr__ = lazy_exports(
        __name__,
        worker="RequestReader ToolWorker Toolbox build_tools sandbox",
    )

__all__ = ["RequestReader", "ToolWorker", "Toolbox", "build_tools", "sandbox"]
