"""Public names.

Examples are read with `read` (a stream) or `read_all`, divided with `split`, and a file is
described with `calibrail.diagnose`. A reader of another format yields `Row`, `Problem` and
`Filtered`.
"""

from calibrail import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
