"""Public names of the core."""

from calibrail import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
