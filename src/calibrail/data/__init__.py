"""Public names.

Examples are read with `read` (a stream) or `read_all`, divided with `split`, and a file is
described with `calibrail.diagnose`. A reader of another format yields `Row`, `Problem` and
`Filtered`.
"""

from calibrail.data.example import Example, Filtered, RowProblem, SourceRow
from calibrail.data.reading import Reading, read, read_all
from calibrail.data.splits import split

__all__ = ["Example", "Filtered", "Reading", "RowProblem", "SourceRow", "read", "read_all", "split"]
