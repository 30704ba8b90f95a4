"""How do labelled RAG answers come in, and how are they divided?

Examples are read with `read` (a stream) or `read_all`, divided with `split`, and a file is
described with `calibrail.diagnose`. A reader of another format yields `Row`, `Problem` and
`Filtered`.
"""

from calibrail.data.example import Example
from calibrail.data.reader import read, read_all
from calibrail.data.reading import Reading
from calibrail.data.rows import Filtered, Problem, Row
from calibrail.data.splits import split

__all__ = ["Example", "Filtered", "Problem", "Reading", "Row", "read", "read_all", "split"]
