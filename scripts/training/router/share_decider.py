"""Sends at most a share of a stream of prompts, the best ones, by the bar that paces spending."""

from __future__ import annotations

import math
from collections.abc import Callable

from baton.core.spending.pace_controller import SLACK_CALLS, BarController, SpendingRate


def share_decider(share: float) -> Callable[[float], bool]:
    """Return a function that decides on one score after the other, so that at most a share is sent.

    Nothing needs to be known of the scores but that a higher one is better to send.
    """
    controller = BarController()
    seen = sent = 0

    def decide(score: float) -> bool:
        nonlocal seen, sent
        seen += 1
        score = -math.inf if math.isnan(score) else score
        room = share * seen - sent - 1
        ok = score > controller.bar(SpendingRate(share, room / SLACK_CALLS))
        controller.add(score, 1.0)
        sent += ok
        return ok

    return decide
