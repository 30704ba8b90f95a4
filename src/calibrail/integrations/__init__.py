"""Package.

One small file a framework, imported only when used: ``calibrail.integrations.langchain``, say.
Each hands the answer to a `Gate` and acts on ``Decision.outcome``: what is not ``pass`` is not
shown, and ``flag``, ``review`` and ``error`` stay apart. No framework's own threshold plays a part.
"""

from calibrail import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
