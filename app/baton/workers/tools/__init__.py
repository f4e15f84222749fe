"""Tools as workers: what computes instead of writing."""

from baton.workers.tools.request_reader import RequestReader
from baton.workers.tools.worker import Toolbox, ToolWorker, sandbox, tools

__all__ = ["RequestReader", "ToolWorker", "Toolbox", "sandbox", "tools"]
