"""Baton: a conductor's baton for language models, on your own machine."""

__version__ = "0.1.0"
