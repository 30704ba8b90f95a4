"""Decision log: hash-chained JSON lines, one file or more a process.

Each process writes files of its own into the folder: a chain of JSON lines, each with its number
(``seq``), the hash of the line before it and its own. ``lines`` says what a line is, which files
there are and reads them; ``writer`` makes them grow, ``verify`` checks and exports them, and
``reader`` reads on where it was left, other files and streams too.
"""

from calibrail import public_names

__getattr__, __dir__, __all__ = public_names(__name__)
