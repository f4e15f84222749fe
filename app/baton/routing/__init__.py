"""The trained router: a child process that computes, its files, and the rule to fall back on."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.routing.learned_router import LearnedRouter
    from baton.routing.learned_versions import Versions
    from baton.routing.protocol import candidates
    from baton.routing.refit import learn
    from baton.routing.router_files import lacking, learned_file, shipped
    from baton.routing.router_probe import Measured, measure
    from baton.routing.scorer_process import Limits, Loaded
else:
    __getattr__ = lazy_exports(
        __name__,
        router_files="lacking learned_file shipped",
        learned_router="LearnedRouter",
        refit="learn",
        router_probe="Measured measure",
        protocol="candidates",
        scorer_process="Limits Loaded",
        learned_versions="Versions",
    )

__all__ = [
    "LearnedRouter",
    "Limits",
    "Loaded",
    "Measured",
    "Versions",
    "candidates",
    "lacking",
    "learn",
    "learned_file",
    "measure",
    "shipped",
]
