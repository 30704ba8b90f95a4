# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.data.example import Example as Example
from calibrail.data.example import Filtered as Filtered
from calibrail.data.example import RowProblem as RowProblem
from calibrail.data.example import SourceRow as SourceRow
from calibrail.data.reading import Reading as Reading
from calibrail.data.reading import read as read
from calibrail.data.reading import read_all as read_all
from calibrail.data.splits import split as split
