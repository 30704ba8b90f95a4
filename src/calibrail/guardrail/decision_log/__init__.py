"""Package.

Each process writes files of its own into the folder: a chain of JSON lines, each with its number
(``seq``), the hash of the line before it and its own. ``lines`` says what a line is, ``folder``
which files there are, ``writer`` how they grow, ``verifying`` what is wrong with them
(``findings`` what that can be), and ``table`` how they become one table. ``tail`` reads on where
it was left (``cursor``), line by line (``taking``), other files too (``streams``).
"""

from calibrail.guardrail.decision_log.writer import DecisionLog, Entry

__all__ = ["DecisionLog", "Entry"]
