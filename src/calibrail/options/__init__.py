"""Public option classes.

Light to import: no numpy, no models, so that the command line can show its help at once.
"""

from calibrail.options.data import Beyond, Detectors, ReadOptions, ShiftSplit, SplitOptions
from calibrail.options.guarantee import (
    Guarantee,
    Promise,
    Release,
    Requirement,
    ScoreThreshold,
    SelectionMethod,
    Undefined,
)
from calibrail.options.labelling import AuditOptions, Drawing, LabelOptions, RecalibrateOptions
from calibrail.options.runtime import EngineOptions, ServeOptions, WatchOptions

__all__ = [
    "AuditOptions",
    "Beyond",
    "Detectors",
    "Drawing",
    "EngineOptions",
    "Guarantee",
    "LabelOptions",
    "Promise",
    "ReadOptions",
    "RecalibrateOptions",
    "Release",
    "Requirement",
    "ScoreThreshold",
    "SelectionMethod",
    "ServeOptions",
    "ShiftSplit",
    "SplitOptions",
    "Undefined",
    "WatchOptions",
]
