"""Exact computing: the plan language's expressions, what they hold, and how a result is worded."""
