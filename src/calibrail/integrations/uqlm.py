"""uqlm: the answers of its results, with every confidence score as a column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import calibrail
from calibrail.errors import InputError


def answers(result: Any, labels: Sequence[int | None] | None = None) -> list[calibrail.Example]:
    """Return the answers of a result, each with its prompt, its samples and its scores.

    Parameters
    ----------
    result : UQResult or mapping
        What a scorer of uqlm returned, or ``{"data": result.data}``, also after a way through JSON;
        its ``to_dict()`` has lost the prompts.
    labels : sequence of int or None, optional
        1 for a hallucinated answer, 0 for a faithful one, None for one without a label.

    Raises
    ------
    InputError
        If it holds no responses, or there is not one label for each.
    """
    from calibrail.data.values import column_value, native

    data = (result.get("data") if isinstance(result, Mapping) else result.data) or {}
    n = len(data.get("responses") or ())
    if not n or n != len(data["responses"] if labels is None else labels):
        raise InputError(f"a uqlm result holds one response for each label; this one holds {n}")
    names = [name for name, values in data.items() if _are_scores(values, n)]
    prompts, samples = data.get("prompts") or [""] * n, data.get("sampled_responses") or [()] * n
    return [
        calibrail.Example(
            str(prompts[row]),
            (),
            str(data["responses"][row]),
            id=str(row),
            label=None if labels is None else native(labels[row]),
            samples=tuple(map(str, samples[row])),
            columns={name: column_value(data[name][row]) for name in names},
        )
        for row in range(n)
    ]


def detector(scorer: str) -> calibrail.Score:
    """Return the detector that reads a scorer's column: a higher confidence means faithful."""
    from calibrail.scores.registry import build_column

    return build_column(scorer, "faithful")


def _are_scores(values: Any, n: int) -> bool:
    """Return whether a column holds a number, Python's or numpy's, or nothing, for each answer."""
    numbers = {isinstance(item, Real) for item in values if item is not None}
    return len(values) == n and numbers == {True}
