"""The trained router: a child process that computes, its files, and the rule to fall back on."""

from typing import TYPE_CHECKING

from baton.core.lazy_loading import lazy_exports

if TYPE_CHECKING:
    from baton.routing.learned_router import (
        LearnedRouter as LearnedRouter,
        measure_router as measure_router,
    )
    from baton.routing.scorer_process import (
        ScorerLimits as ScorerLimits,
        read_scores as read_scores,
        shipped_folder as shipped_folder,
    )
else:
    __getattr__ = lazy_exports(
        __name__,
        learned_router="LearnedRouter measure_router",
        scorer_process="ScorerLimits read_scores shipped_folder",
    )
