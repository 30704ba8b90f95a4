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
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import get_data

if re.search(r" -\w*m ?calibrail\.", " ".join(sys.orig_argv)) and sys.argv[0] == "-m":
    # Started as a module, such as integrations.mcp: its libraries are not those of the folder.
    import_module("calibrail.working_folder").forget_started_folder()


def _stub(package: str) -> str:
    return (get_data(package, "__init__.pyi") or b"").decode("utf-8")


def defined_in(package: str) -> dict[str, str]:
    """Return the names of a package's stub, each with the module that defines it."""
    found = re.findall(r"from (\S+) import \(?\s*(\w+) as", _stub(package))
    return {name: module for module, name in found}


def public_names(
    package: str,
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return a package's ``__getattr__``, ``__dir__`` and ``__all__``.

    Names are listed once, in the package's stub: for type checkers and for Python. Each is loaded
    when it is first used.
    """
    home = defined_in(package)
    names = re.findall(r'^    "(\w+)",$', _stub(package), re.MULTILINE) or list(home)

    def load(name: str) -> object:
        source = import_module(home[name]) if name in home else None
        value = getattr(source, name, sys.modules.get(f"{package}.{name}"))
        if value is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: names, names


__getattr__, __dir__, __all__ = public_names(__name__)
