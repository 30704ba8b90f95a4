"""How many steps does a function take? A count that does not depend on how busy the machine is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps(function: Callable[..., Any], *arguments: Any) -> int:
    """Return the number of instructions that Python executes; one call of C code is one of them."""
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return count


def grows_with(function: Callable[[Any], Any], made: Callable[[int], Any]) -> bool:
    """Say whether twice as large an input takes at most twice the steps, but for a tenth."""
    function(made(1))
    return steps(function, made(200)) <= 2.2 * steps(function, made(100))
