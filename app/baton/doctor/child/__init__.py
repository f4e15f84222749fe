"""What the self-test uses, one part of Baton after the other, each in a process of its own."""

from baton.doctor.child.self_test_parts import PARTS, DoubtfulText, Part

__all__ = ["PARTS", "DoubtfulText", "Part"]
