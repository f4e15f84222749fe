"""Exact computing: what the conductor's expressions come to, and how results are said."""


class CannotCompute(Exception):
    """Why an expression has no value here, in a sentence."""
