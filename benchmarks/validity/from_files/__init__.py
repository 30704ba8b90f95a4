"""Do the promises hold the way a user gets them: from a file, split, ids and command line included?

Each simulation writes labelled answers of a population whose true rates are known to a file, reads
it with the functions behind the commands, and compares what they say with the truth. Answers come
alone or in groups that are alike, large groups being harder than small ones. What is promised then
is about an answer drawn at random from a new group.
"""

from .grid import FROM_FILES as FROM_FILES
from .grid import simulate_from_files as simulate_from_files
