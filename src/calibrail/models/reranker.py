"""How relevant is a document to a query, as a cross-encoder sees it?"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import ModelError
from calibrail.models.loading import Architecture
from calibrail.models.pairs import PairHead, PairModel


class Reranker(PairModel):
    """A cross-encoder of query (short) and document (long) with one output.

    Scores of one process share one: ``shared`` in ``models/store.py``. The output is the raw
    logit: a sigmoid would saturate, so that logits of 17 and 18 would both be 1.0.

    Parameters
    ----------
    model, revision, dtype, window
        See ``PairModel``.
    """

    @property
    def tolerance(self) -> float:
        """How far two computations of one logit may differ; logits reach about 10."""
        return 10.0 * super().tolerance

    def describe(self) -> dict[str, Any]:
        """Return the kind of head.

        Raises
        ------
        ModelError
            If the model has not exactly one output.
        """
        labels = self.place.config("id2label")
        stated = self.place.config("num_labels")
        # Two outputs are what transformers makes of a config that states none.
        n = len(labels) if isinstance(labels, dict) else stated if isinstance(stated, int) else 2
        if n != 1:
            listed = ", ".join(map(str, (labels or {}).values()))
            names = f"labels {listed}" if labels else "states no labels"
            raise ModelError(
                f"{self.model} is no reranker: a reranker has one output, its relevance, and this "
                f"model has {n} ({names}). Give one as model=, e.g. BAAI/bge-reranker-v2-m3"
            )
        return {"head": "relevance logit"}

    def relevance(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """Return the logit of each (query, document), of its best window; float64, shape (n,).

        Raises
        ------
        ModelError
            If the model cannot be loaded or is no reranker.
        """
        return np.array([best.values[0] for best in self.results(pairs)], dtype=np.float64)

    def open(self) -> PairHead:
        """Load the model."""
        self.describe()
        architecture = Architecture("AutoModelForSequenceClassification", "a reranker")
        return self.open_head(architecture, partial(PairHead, long_first=False))
