"""What do scores that learn ask of the labels they learn from?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.errors import InputError

#: Fewer of a class teach nothing that could hold on other examples.
FEWEST = 5


def both_classes(
    name: str, examples: Sequence[Example], usable: NDArray[np.bool_]
) -> NDArray[np.int8]:
    """Return the labels of the usable examples.

    Raises
    ------
    InputError
        If one has no label, or a class has fewer than ``FEWEST``.
    """
    chosen = [example for example, keep in zip(examples, usable.tolist(), strict=True) if keep]
    for example in chosen:
        if example.label not in (0, 1):
            raise InputError(
                f"{name} learns from labels, and example {example.id!r} has none; label it 0 "
                "(faithful) or 1 (hallucinated), or leave it out"
            )
    labels = np.array([example.label for example in chosen], dtype=np.int8)
    for label, kind in ((1, "hallucinated"), (0, "faithful")):
        count = int(np.count_nonzero(labels == label))
        if count < FEWEST:
            raise InputError(
                f"{name} learns from both classes and needs {FEWEST} of each; its fit split holds "
                f"{count} {kind} examples that it can score; label more, or raise --fit-share"
            )
    return labels


def separation(values: NDArray[np.float64], labels: NDArray[Any]) -> float:
    """Return the AUROC of values that are defined; 0.5 where a class is missing."""
    from sklearn.metrics import roc_auc_score

    known = labels >= 0
    if len(set(labels[known].tolist())) < 2:
        return 0.5
    return float(roc_auc_score(labels[known], values[known]))
