# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.engine.distributed import score_examples as score_examples
from calibrail.engine.distributed import score_parts as score_parts
from calibrail.engine.distributed import use_engine as use_engine
