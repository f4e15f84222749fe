"""The trained router: a child process that computes, its files, and the rule to fall back on."""

from typing import TYPE_CHECKING

from baton.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from baton.routing.learned_router import LearnedRouter, RouterSpeed, measure_router
    from baton.routing.personalisation import LearnedVersions
    from baton.routing.protocol import candidates
    from baton.routing.router_files import learned_file, missing_part, read_scores, shipped_folder
    from baton.routing.scorer_process import LoadedRouter, ScorerLimits, refit_router
else:
    __getattr__ = lazy_exports(
        __name__,
        router_files="learned_file missing_part read_scores shipped_folder",
        learned_router="LearnedRouter RouterSpeed measure_router",
        protocol="candidates",
        scorer_process="LoadedRouter ScorerLimits refit_router",
        personalisation="LearnedVersions",
    )

__all__ = [
    "LearnedRouter",
    "LearnedVersions",
    "LoadedRouter",
    "RouterSpeed",
    "ScorerLimits",
    "candidates",
    "learned_file",
    "measure_router",
    "missing_part",
    "read_scores",
    "refit_router",
    "shipped_folder",
]
