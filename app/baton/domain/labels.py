"""How far a text may travel: a lattice, local < lan < cloud.

Every conversation, message, file and output carries a label. What is derived from several texts
carries the strictest label of them all, so private text stays local through planning, titles,
verification and branches alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Label(StrEnum):
    """The farthest place a text may be sent to."""

    LOCAL = "local"
    LAN = "lan"
    CLOUD = "cloud"

    def allows(self, privacy: Label) -> bool:
        """Tell whether text with this label may be shown to a worker of that privacy class."""
        return _RANK[privacy] <= _RANK[self]


_RANK = {Label.LOCAL: 0, Label.LAN: 1, Label.CLOUD: 2}


def strictest(labels: Iterable[Label]) -> Label:
    """Return the label of something derived from all of these (nothing at all may go anywhere)."""
    return min(labels, key=_RANK.__getitem__, default=Label.CLOUD)
