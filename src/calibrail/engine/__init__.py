"""Engines: where scores are computed, in this process, in others, or on a Ray cluster."""

from calibrail import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
