"""Whether the parts of Baton load and work here, each tried in a child process of its own."""

from baton.adapters.trials.trial import PARTS, Faulty, Tried, processor, try_part

__all__ = ["PARTS", "Faulty", "Tried", "processor", "try_part"]
