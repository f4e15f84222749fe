"""What the self-test tries, one part of Baton after the other, each in a process of its own."""

from baton.children.trials.parts import PARTS, Part
from baton.children.trials.work import Doubt

__all__ = ["PARTS", "Doubt", "Part"]
