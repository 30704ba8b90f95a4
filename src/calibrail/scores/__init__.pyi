# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.scores.base import Demand as Demand
from calibrail.scores.base import Demanding as Demanding
from calibrail.scores.base import Fittable as Fittable
from calibrail.scores.base import Score as Score
from calibrail.scores.base import Scores as Scores
from calibrail.scores.registry import BASELINES as BASELINES
from calibrail.scores.registry import DEFAULT_SCORE as DEFAULT_SCORE
from calibrail.scores.registry import ScoreSpec as ScoreSpec
from calibrail.scores.registry import available as available
from calibrail.scores.registry import build as build
from calibrail.scores.registry import build_column as build_column
from calibrail.scores.registry import key_of as key_of
from calibrail.scores.registry import parse_spec as parse_spec
from calibrail.scores.registry import parse_specs as parse_specs
from calibrail.scores.table import ScoreTable as ScoreTable
