"""Package."""

from calibrail.scores.base import Demand, Demanding, Fittable, Score, Scores
from calibrail.scores.registry import (
    BASELINES,
    DEFAULT_SCORE,
    ScoreSpec,
    available,
    build,
    build_column,
    key_of,
    parse_spec,
    parse_specs,
)
from calibrail.scores.table import ScoreTable

__all__ = [
    "BASELINES",
    "DEFAULT_SCORE",
    "Demand",
    "Demanding",
    "Fittable",
    "Score",
    "ScoreSpec",
    "ScoreTable",
    "Scores",
    "available",
    "build",
    "build_column",
    "key_of",
    "parse_spec",
    "parse_specs",
]
