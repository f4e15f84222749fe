"""What the self-test tries, one part of Baton after the other, each in a process of its own."""

from baton.doctor.child.self_test_parts import PARTS, Part
from baton.doctor.child.self_test_tasks import DoubtfulText

__all__ = ["PARTS", "DoubtfulText", "Part"]
