"""Package."""

from calibrail.engine.distributed import score_examples, score_parts, use_engine

__all__ = ["score_examples", "score_parts", "use_engine"]
