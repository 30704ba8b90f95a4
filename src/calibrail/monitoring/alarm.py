"""What is said of an alarm: since when, from what to what, and which answers?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from calibrail.conformal.change import change_point
from calibrail.conformal.validation import Ints
from calibrail.monitoring.features import Bins
from calibrail.monitoring.history import Blocks
from calibrail.monitoring.moments import moment
from calibrail.monitoring.part import read_refs
from calibrail.monitoring.rows import Ref

#: Latest rows whose bins are known one by one.
KEPT: Final = 256
#: Answers that are named with an alarm.
MOST_EXAMPLES: Final = 10


@dataclass(frozen=True, slots=True)
class Recent:
    """The latest rows one by one.

    Attributes
    ----------
    row : int
        Number of the first of them.
    bins : ndarray of int64, shape (features, n)
        Where they fell; -1 where a feature has no value.
    refs : tuple of (chain, seq, id), or None
        Where they stand in their logs.
    """

    row: int
    bins: Ints
    refs: tuple[Ref | None, ...]

    @classmethod
    def none(cls) -> Self:
        """Return no rows."""
        return cls(0, np.zeros((0, 0), np.int64), ())

    def then(self, row: int, bins: Ints, refs: Sequence[Ref | None]) -> Self:
        """Return these and the rows that follow, the latest only."""
        before = self.bins if self.refs else bins[:, :0]
        every = np.concatenate([before, bins], axis=1)[:, -KEPT:]
        last = row + bins.shape[1]
        return type(self)(last - every.shape[1], every, (*self.refs, *refs)[-KEPT:])

    def to_dict(self) -> dict[str, Any]:
        """Return what ``from_dict`` reads."""
        refs = [None if ref is None else [*ref] for ref in self.refs]
        bins = self.bins.tolist() if refs else []
        return {"row": self.row, "bins": bins, "refs": refs}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], features: int) -> Self:
        """Rebuild it."""
        refs = read_refs(content["refs"])
        bins = np.array(content["bins"], np.int64).reshape(features, len(refs))
        return cls(content["row"], bins, refs)


def alarm(
    bins: Bins, at: int, blocks: Blocks, recent: Recent, last: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what is said of an alarm of feature ``at``, raised by the row and time ``last``.

    ``since`` is the first row after the change, to the length of a block, with the ends of its
    interval: a change within a block looks like one at either of its ends, so that the interval
    reaches from the block before the first likely one to the end of the last. ``before`` is the
    counted part of the reference and the rows up to the estimate, and ``after`` the rest;
    ``examples`` are the latest answers after the change in the bins that gained most.
    """
    counts = blocks.counts[:, at, : bins.n]
    found = change_point(counts)
    before, after = counts[: found.estimate].sum(axis=0), counts[found.estimate :].sum(axis=0)
    totals = blocks.totals[:, at]
    gained = after / max(1, after.sum()) - before / max(1, before.sum())
    further = found.upper + 1 < len(counts)
    ends = {
        "lower": _place(blocks, max(1, found.lower - 1)),
        "upper": _place(blocks, found.upper + 1) if further else dict(last),
    }
    since = _place(blocks, found.estimate)
    return {
        "since": since | ends,
        "before": bins.summary(before, float(totals[: found.estimate].sum())),
        "after": bins.summary(after, float(totals[found.estimate :].sum())),
        "histogram": {
            "edges": [float(f"{edge:.6g}") for edge in bins.edges],
            "names": [*bins.languages, *(["rarer", "other"] if bins.feature == "language" else [])],
            "before": before.tolist(),
            "after": after.tolist(),
        },
        "examples": _examples(recent, at, since["row"], gained),
    }


def _place(blocks: Blocks, block: int) -> dict[str, Any]:
    """Return the row at which a block begins, with its time."""
    return {"row": int(blocks.row[block]), "time": moment(float(blocks.time[block]))}


def _examples(recent: Recent, at: int, since: int, gained: Any) -> list[dict[str, Any]]:
    """Return the latest rows since a row, those of the bin that gained most first."""
    rows = recent.row + np.arange(len(recent.refs))
    examples = []
    for gaining in np.argsort(-gained, kind="stable"):
        if gained[gaining] <= 0.0:
            break
        for place in np.flatnonzero((recent.bins[at] == gaining) & (rows >= since))[::-1]:
            named = zip(("chain", "seq", "id"), recent.refs[place] or (), strict=False)
            examples.append({"row": int(rows[place]), **dict(named)})
            if len(examples) == MOST_EXAMPLES:
                return examples
    return examples
