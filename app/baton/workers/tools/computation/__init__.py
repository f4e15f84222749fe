"""Exact computing: what the conductor's expressions come to, and how results are said."""


class CannotCompute(Exception):
    """Why an expression has no value here, in a sentence."""


class NotAnExpression(CannotCompute):
    """A text that isn't in the language of expressions at all."""

    def __init__(self) -> None:
        super().__init__("This is not an expression that can be computed.")
