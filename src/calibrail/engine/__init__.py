"""Engines: where scores are computed, in this process, in others, or on a Ray cluster."""

from calibrail.engine.distributed import score_examples, score_parts, use_engine

__all__ = ["score_examples", "score_parts", "use_engine"]
