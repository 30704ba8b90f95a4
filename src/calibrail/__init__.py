"""The names that a user types first; everything else lives in documented sub-packages.

>>> import calibrail
>>> run = calibrail.calibrate("example:facts", score="novel_count", alpha=0.1)
>>> run.verdict
'inconclusive'

Importing the package imports nothing heavy: each name is loaded when it is first used. Options
are in ``calibrail.options``, errors in ``calibrail.errors``, results beside the function that
returns them; the reference lists them all.
"""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import get_data

#: Names, each with the module that defines it, are listed once: for type checkers and for Python.
_STUB = (get_data(__name__, "__init__.pyi") or b"").decode("utf-8")
_HOME = {name: module for module, name in re.findall(r"from (\S+) import (\w+) as", _STUB)}

__all__ = re.findall(r'^    "(\w+)",$', _STUB, re.MULTILINE)


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'calibrail' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
