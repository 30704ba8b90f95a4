"""Of the attention that a response pays, what share falls on each document?"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.models.layout import Tokens
from calibrail.models.windows import Window


class TokenShare(NamedTuple):
    """The share of one token of the response.

    Attributes
    ----------
    start, end : int
        Characters of the response that the token covers.
    share : float
        As in ``AttentionShare``, of this token alone.
    """

    start: int
    end: int
    share: float


class AttentionShare(NamedTuple):
    """How much a response looks at its documents.

    Attributes
    ----------
    share : float
        Mean over response tokens and heads of the attention that falls on document tokens,
        divided by what falls on document and response tokens; in [0, 1]. NaN where the response
        has no token.
    documents : tuple of float
        The part of each document; they add up to ``share``.
    tokens : tuple of TokenShare
        The tokens of the response in their order.
    """

    share: float
    documents: tuple[float, ...]
    tokens: tuple[TokenShare, ...]


def document_of(offsets: Sequence[tuple[int, int]], documents: Sequence[str]) -> NDArray[np.int64]:
    """Return which document each token belongs to, -1 for a break between two."""
    lengths = np.array([len(document) for document in documents], dtype=np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths + 1)])[:-1]
    spans = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    # A token that reaches over a break is told by its last character.
    place = np.searchsorted(starts, np.maximum(spans[:, 1] - 1, 0), side="right") - 1
    if not len(starts):
        return np.full(len(spans), -1, dtype=np.int64)
    inside = spans[:, 0] < starts[place] + lengths[place]
    result: NDArray[np.int64] = np.where(inside, place, -1)
    return result


def token_shares(
    attentions: Sequence[Any], row: int, window: Window, places: NDArray[np.int64], n: int
) -> NDArray[np.float64]:
    """Return for each response token of a window its share on each document, shape (tokens, n)."""
    import torch

    (begin, stop), (short_begin, short_stop) = window.long, window.short
    documents = places[window.first : window.first + stop - begin]
    # One column a document, and the last for the response.
    columns = torch.zeros((attentions[0].shape[-1], n + 1), dtype=torch.float64)
    inside = np.flatnonzero(documents >= 0)
    columns[begin + inside, documents[inside]] = 1.0
    columns[short_begin:short_stop, n] = 1.0
    looks = (layer[row, :, short_begin:short_stop].double().cpu() for layer in attentions)
    mass = np.concatenate([(look @ columns).numpy() for look in looks])
    total = mass.sum(axis=2, keepdims=True)
    # A head that looks at special tokens only says nothing of either.
    says = total > 0.0
    parts = np.divide(mass, total, out=np.zeros_like(mass), where=says)[..., :n]
    count = says.sum(axis=0)
    shares: NDArray[np.float64] = np.full(parts.shape[1:], np.nan)
    np.divide(parts.sum(axis=0), count, out=shares, where=count > 0)
    return shares


def summary(
    tokens: Tokens, window_shares: Sequence[tuple[Window, NDArray[np.float64]]], n: int
) -> AttentionShare:
    """Return the best window of each part of the response, the parts one after the other."""
    best: dict[int, NDArray[np.float64]] = {}
    for window, shares in window_shares:
        part = window.first_short
        known = best.get(part)
        # A window in which all attention falls on special tokens says nothing.
        worse = known is not None and shares.sum(axis=1).mean() <= known.sum(axis=1).mean()
        if known is None or not (worse or np.isnan(shares).any()):
            best[part] = shares
    if not best:
        return AttentionShare(float("nan"), (float("nan"),) * n, ())
    by_token = np.concatenate([best[part] for part in sorted(best)])
    documents = by_token.mean(axis=0)
    return AttentionShare(
        share=float(documents.sum()),
        documents=tuple(documents.tolist()),
        tokens=tuple(
            TokenShare(start, end, float(share))
            for (start, end), share in zip(tokens.short.offsets, by_token.sum(axis=1), strict=True)
        ),
    )
