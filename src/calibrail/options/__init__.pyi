# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.options.data import Beyond as Beyond
from calibrail.options.data import Detectors as Detectors
from calibrail.options.data import ReadOptions as ReadOptions
from calibrail.options.data import ShiftSplit as ShiftSplit
from calibrail.options.data import SplitOptions as SplitOptions
from calibrail.options.guarantee import Costs as Costs
from calibrail.options.guarantee import Guarantee as Guarantee
from calibrail.options.guarantee import Promise as Promise
from calibrail.options.guarantee import Release as Release
from calibrail.options.guarantee import Requirement as Requirement
from calibrail.options.guarantee import ScoreThreshold as ScoreThreshold
from calibrail.options.guarantee import SelectionMethod as SelectionMethod
from calibrail.options.guarantee import Undefined as Undefined
from calibrail.options.labelling import AuditOptions as AuditOptions
from calibrail.options.labelling import Drawing as Drawing
from calibrail.options.labelling import LabelOptions as LabelOptions
from calibrail.options.labelling import RecalibrateOptions as RecalibrateOptions
from calibrail.options.runtime import EngineOptions as EngineOptions
from calibrail.options.runtime import ServeOptions as ServeOptions
from calibrail.options.runtime import WatchOptions as WatchOptions
