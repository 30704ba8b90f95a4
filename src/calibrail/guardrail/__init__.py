"""How is a certified threshold frozen, and how does it decide in production?"""

from calibrail.guardrail.frozen import SCHEMA, FrozenConfig, Policy, ScoreSpecConfig
from calibrail.guardrail.runtime import Decision, Guardrail

__all__ = ["SCHEMA", "Decision", "FrozenConfig", "Guardrail", "Policy", "ScoreSpecConfig"]
