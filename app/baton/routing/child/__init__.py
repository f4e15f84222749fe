"""The learned router: numbers only. Knows `core`, and runs in the scorer child and in scripts.

scripts/train_router fits the weights in models/router to the constants here. After a change run
`scripts/bench_router split domains --fast`, which measures both, and for draft_signals
scripts/training/router/fit_draft_signals.py.
"""

from __future__ import annotations


class RouterFileError(Exception):
    """A file of the router is missing, broken, or of another format."""
