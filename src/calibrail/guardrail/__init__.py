"""Package.

Importing the package imports nothing heavy: a client and a reader of logs need a decision alone.
"""

from calibrail import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
