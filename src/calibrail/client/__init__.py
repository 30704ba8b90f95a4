"""Package.

It imports none of the service's own modules, nor numpy or a model: a decision is all it knows.
"""

from calibrail import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
