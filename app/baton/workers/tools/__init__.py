"""Tools as workers: what computes instead of writing."""

from baton.adapters.tools.request_reader import RequestReader
from baton.adapters.tools.worker import Toolbox, ToolWorker, sandbox, tools

__all__ = ["RequestReader", "ToolWorker", "Toolbox", "sandbox", "tools"]
