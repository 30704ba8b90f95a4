"""How is a certified threshold frozen, and how does it decide in production?"""

from calibrail.guardrail.decision import Decision
from calibrail.guardrail.frozen import SCHEMA, FrozenConfig, Policy, ScoreSpecConfig
from calibrail.guardrail.runtime import Guardrail

__all__ = ["SCHEMA", "Decision", "FrozenConfig", "Guardrail", "Policy", "ScoreSpecConfig"]
