"""The trained router: a child process that computes, its files, and the rule to fall back on."""

from baton.adapters.router.files import lacking, learned_file, shipped
from baton.adapters.router.learned import LearnedRouter
from baton.adapters.router.learning import learn
from baton.adapters.router.probe import Measured, measure
from baton.adapters.router.reading import candidates
from baton.adapters.router.scorer import Limits, Loaded
from baton.adapters.router.versions import Versions

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
