"""Public option classes.

Light to import: no numpy, no models, so that the command line can show its help at once.
"""

from calibrail import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
