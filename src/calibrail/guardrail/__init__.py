"""Package.

Importing the package imports nothing heavy: a client and a reader of logs need a decision alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibrail.guardrail.decision import Decision as Decision
    from calibrail.guardrail.file import SCHEMA as SCHEMA
    from calibrail.guardrail.file import FrozenConfig as FrozenConfig
    from calibrail.guardrail.file import Policy as Policy
    from calibrail.guardrail.file import ScoreSpecConfig as ScoreSpecConfig
    from calibrail.guardrail.runtime import Guardrail as Guardrail
    from calibrail.guardrail.sentences import SentenceVerdict as SentenceVerdict
    from calibrail.guardrail.sentences import StreamCheck as StreamCheck
    from calibrail.guardrail.signing import Signature as Signature
    from calibrail.guardrail.signing import signature_path as signature_path


_HOME = {
    "Decision": "decision",
    "FrozenConfig": "file",
    "Guardrail": "runtime",
    "Policy": "file",
    "SCHEMA": "file",
    "ScoreSpecConfig": "file",
    "SentenceVerdict": "sentences",
    "Signature": "signing",
    "StreamCheck": "sentences",
    "signature_path": "signing",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'calibrail.guardrail' has no attribute {name!r}")
    value = getattr(import_module(f"calibrail.guardrail.{_HOME[name]}"), name)
    globals()[name] = value
    return value
