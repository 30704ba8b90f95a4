"""Which choices does a user make, what do they mean, and when are they refused?

Light to import: no numpy, no models, so that the command line can show its help at once.
"""

from calibrail.settings.auditing import AuditOptions
from calibrail.settings.beyond import Beyond
from calibrail.settings.detectors import Detectors
from calibrail.settings.drawing import Drawing
from calibrail.settings.engine import EngineOptions
from calibrail.settings.labelling import LabelOptions
from calibrail.settings.promise import Guarantee, Promise, Undefined
from calibrail.settings.reading import ReadOptions, ReadShort
from calibrail.settings.recalibrating import RecalibrateOptions
from calibrail.settings.release import Release, SelectionMethod
from calibrail.settings.requirement import Requirement
from calibrail.settings.score_threshold import ScoreThreshold
from calibrail.settings.serving import ServeOptions
from calibrail.settings.shift import ShiftSplit
from calibrail.settings.splitting import SplitOptions
from calibrail.settings.watch import WatchOptions

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
    "ReadShort",
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
