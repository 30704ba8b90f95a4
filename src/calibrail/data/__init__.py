"""How do labelled RAG answers come in, and how are they divided?

Examples are read with `read` (a stream) or `read_all`, divided with `split`, and a file is
described with `calibrail.diagnose`.
"""

from calibrail.data.diagnosis import Diagnosis, Finding
from calibrail.data.duplicates import CrossSplitDuplicates, cross_split_duplicates
from calibrail.data.example import FAITHFUL, HALLUCINATED, TEXT_FIELDS, Example
from calibrail.data.formats import format_names
from calibrail.data.presets import PRESETS
from calibrail.data.reader import Reading
from calibrail.data.reading import read, read_all
from calibrail.data.rows import Filtered, Problem, Row
from calibrail.data.sketches import Sketcher, Sketches
from calibrail.data.splits import (
    CALIBRATION,
    FIT,
    SPLIT_NAMES,
    TEST,
    group_numbers,
    split,
    split_from_column,
    straddling_groups,
)

__all__ = [
    "CALIBRATION",
    "FAITHFUL",
    "FIT",
    "HALLUCINATED",
    "PRESETS",
    "SPLIT_NAMES",
    "TEST",
    "TEXT_FIELDS",
    "CrossSplitDuplicates",
    "Diagnosis",
    "Example",
    "Filtered",
    "Finding",
    "Problem",
    "Reading",
    "Row",
    "Sketcher",
    "Sketches",
    "cross_split_duplicates",
    "format_names",
    "group_numbers",
    "read",
    "read_all",
    "split",
    "split_from_column",
    "straddling_groups",
]
