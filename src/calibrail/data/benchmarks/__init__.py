"""Which public benchmarks can be read in their original files?

One file each. Every reader yields rows under calibrail's own field names, which then pass the same
checks as any other row.
"""

from calibrail.data.benchmarks.halueval import HALUEVAL
from calibrail.data.benchmarks.natural_questions import NATURAL_QUESTIONS
from calibrail.data.benchmarks.truthfulqa import TRUTHFULQA
from calibrail.data.benchmarks.wikibio import WIKIBIO

#: The benchmarks that are one table.
NATIVES = (HALUEVAL, NATURAL_QUESTIONS, TRUTHFULQA, WIKIBIO)
