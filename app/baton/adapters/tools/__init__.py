"""Tools as workers: what computes instead of writing."""

from baton.adapters.tools.worker import Toolbox, ToolWorker, sandbox, tools

__all__ = ["ToolWorker", "Toolbox", "sandbox", "tools"]
