# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.guardrail.decision import Decision as Decision
from calibrail.guardrail.file import SCHEMA as SCHEMA
from calibrail.guardrail.file import FrozenConfig as FrozenConfig
from calibrail.guardrail.file import Policy as Policy
from calibrail.guardrail.file import ScoreSpecConfig as ScoreSpecConfig
from calibrail.guardrail.file import TrafficSketch as TrafficSketch
from calibrail.guardrail.runtime import Guardrail as Guardrail
from calibrail.guardrail.sentences import SentenceVerdict as SentenceVerdict
from calibrail.guardrail.sentences import StreamCheck as StreamCheck
from calibrail.guardrail.signing import Signature as Signature
from calibrail.guardrail.signing import SignatureTerms as SignatureTerms
from calibrail.guardrail.signing import signature_path as signature_path
