"""How much of what one look at labelled data saw is what others saw?

Data is known again by what it holds: of every look the lowest digests of its answers are kept, a
fair sample of them all (as in a bottom-k sketch), which estimates the share that two looks have in
common. Where rows cannot be told apart, only all of them together are. A detector is known again by
its specification, or by its values: the same column under another name is the same detector.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrail.data.ids import rising, scattered
from calibrail.record import Record

#: Digests kept of every look.
KEPT: Final = 256
#: Share of the answers that were looked at before from which nothing is certified.
VOID: Final = 0.1
#: Answers that are hashed at a time.
_AT_A_TIME: Final = 1 << 20
#: Share of the smaller look's answers to which two names of one detector give the same value.
SAME_VALUES: Final = 0.9


@dataclass(frozen=True, slots=True)
class Look(Record):
    """One look at labelled data.

    Attributes
    ----------
    n : int
        Answers.
    seed : int or None
        Of the split; None where the data says it or there is none.
    content : str
        Digest of all answers' digests, whatever their order.
    lowest : tuple of str
        The lowest digests of its answers; empty where these do not tell them apart.
    verdict : str
        What it said.
    split : str
        Digest of all answers' digests with their labels and parts, whatever their order.
    assumed : bool
        Whether all answers were taken as independent.
    reported : bool
        Whether it is the look of the guardrail's own report at its test part.
    detector : str
        Digest of the detector's specification; empty where there is one detector only.
    question : str
        Digest of what was asked about it (alpha, guarantee, ...).
    valued : tuple of str
        The lowest digests of its answers, each with the value that the detector gave it; empty
        where ``lowest`` is.
    session : str
        Digest of what was agreed on before answers were labelled one after another; empty where
        they were not. However far it goes on, it is one look.
    traces, folder : str
        Of such a session: the digest of what it draws from, and where its labels are.
    """

    n: int
    seed: int | None
    content: str
    lowest: tuple[str, ...]
    verdict: str = ""
    split: str = ""
    assumed: bool = False
    reported: bool = False
    detector: str = ""
    question: str = ""
    valued: tuple[str, ...] = ()
    session: str = ""
    traces: str = ""
    folder: str = ""

    def __post_init__(self) -> None:
        texts = ["content", "verdict", "split", "detector", "question", "session"]
        texts += ["traces", "folder"]
        types: dict[str, Any] = dict.fromkeys(texts, str)
        types |= {"n": int, "seed": int | None, "assumed": bool, "reported": bool}
        for name, kind in types.items():
            value = getattr(self, name)
            if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
                raise TypeError(f"{name} of a look is {value!r:.40}")
        for item in (*self.lowest, *self.valued):
            if not (isinstance(item, str) and re.fullmatch("[0-9a-f]{16}", item)):
                raise ValueError(f"a digest of a look is {item!r:.40}")

    @classmethod
    def at(
        cls,
        digests: NDArray[np.uint64],
        labels: NDArray[np.int8],
        codes: NDArray[np.int8] | None = None,
        *,
        seed: int | None = None,
        assumed: bool = False,
        apart: bool = True,
        scores: NDArray[np.float64] | None = None,
        marks: NDArray[np.uint64] | None = None,
    ) -> "Look":
        """Return the look at answers with these digests, labels and parts of a split.

        ``apart`` says whether the digests tell the answers apart, ``scores`` are what the
        detector gave them, and ``marks`` stand for the labels of their sentences, where they count.
        """
        parts = np.zeros(len(digests), np.int8) if codes is None else codes
        order = rising(digests, labels, parts, *(() if marks is None else (marks,)))
        hasher = sha256()
        for start in range(0, len(order), _AT_A_TIME):
            hasher.update(digests[order[start : start + _AT_A_TIME]].astype("<u8", copy=False).data)
        content = hasher.hexdigest()
        hasher.update(labels[order].astype(np.int8, copy=False).data)
        hasher.update(parts[order].data)
        if marks is not None:
            hasher.update(marks[order].astype("<u8", copy=False).data)
        lowest: tuple[str, ...] = ()
        valued: tuple[str, ...] = ()
        if apart:
            lowest = _lowest(digests)
            valued = () if scores is None else _lowest(digests, scores)
        return cls(
            len(order),
            seed,
            content,
            lowest,
            split=hasher.hexdigest(),
            assumed=assumed,
            valued=valued,
        )

    def same(self, other: "Look") -> bool:
        """Return whether the same answers, with the same labels, were split and counted alike."""
        one, two = (
            (look.content, look.split, look.seed, look.assumed, look.reported, look.session)
            for look in (self, other)
        )
        return one == two

    def goes_on_from(self, other: "Look") -> bool:
        """Return whether this is the other look again, or labels that went on since."""
        return self.session == other.session if self.session else self.same(other)

    def adds_nothing_to(self, other: "Look") -> bool:
        """Return whether the other one stands for this one, too."""
        if self.session and not self.n:
            return self.session == other.session
        return self.same(other) and self.question == other.question

    def of_one_detector(self, other: "Look") -> bool:
        """Return whether both are about one detector, by its specification or by its values."""
        if self.detector == other.detector:
            return True
        if not (self.valued and other.valued):
            # Answers that are not told apart are known by their values.
            return self.content == other.content and not self.lowest
        pairs = ((self.valued, other.valued), (other.valued, self.valued))
        shares = [len(found) / max(1, size) for found, size in (_common(*pair) for pair in pairs)]
        # Of the smaller one: data grows.
        return max(shares) >= SAME_VALUES

    def common(self, other: "Look") -> tuple[set[str], int]:
        """Return which of a fair sample of these answers the other look has, and its size."""
        # Other lots from the same traces are another chance, whichever answers they fall on.
        alike = self.traces and self.traces == other.traces
        if alike or (self.n and self.content == other.content):
            return set(self.lowest) or {self.content}, len(self.lowest) or 1
        return _common(self.lowest, other.lowest)


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[set[str], int]:
    """Return which of a fair sample of one look's digests the other's hold, and its size."""
    # Only below the lower of both limits do both samples hold all that there is.
    limit = min(kept[-1] if len(kept) >= KEPT else "g" for kept in (one, other))
    sample = {item for item in one if item <= limit}
    return sample & set(other), len(sample)


def _lowest(
    digests: NDArray[np.uint64], scores: NDArray[np.float64] | None = None
) -> tuple[str, ...]:
    """Return the lowest digests, or those of answers with their scores, each once."""
    lowest = np.zeros(0, np.uint64)
    for start in range(0, len(digests), _AT_A_TIME):
        part = digests[start : start + _AT_A_TIME]
        if scores is not None:
            part = scattered(part ^ _value_digests(scores[start : start + _AT_A_TIME]))
        if len(lowest) == KEPT:
            part = part[part < lowest[-1]]
        # A sort takes a hundredth of the time that numpy's set of whole numbers does.
        part = np.sort(np.append(lowest, part))
        lowest = part[np.append(True, part[1:] != part[:-1])][:KEPT]
    return tuple(f"{value:016x}" for value in lowest.tolist())


#: Earlier looks, each with the estimated share of the answers that it was the first to look at.
Earlier: TypeAlias = tuple[tuple[Look, float], ...]


def shared(look: Look, others: Sequence[Look]) -> Earlier:
    """Return the looks at data that shares answers with this one, each with the share it adds.

    Those that return without traces drew from other ones.
    """
    found: set[str] = set()
    result = []
    for other in others:
        among, size = look.common(other)
        if among:
            same = other if other.traces == look.traces else replace(other, traces="")
            result.append((same, len(among - found) / size))
        found |= among
    return tuple(result)


def void(earlier: Earlier) -> bool:
    """Return whether so many answers were looked at before that nothing can be certified."""
    # Of several estimates, each of which is a share of another sample.
    return sum(share for _, share in earlier) >= VOID - 1e-9


def told(earlier: Earlier) -> list[dict[str, Any]]:
    """Return earlier looks as a report holds them, without digests."""
    return [
        {
            "n": look.n,
            "seed": look.seed,
            "verdict": look.verdict,
            "reported": look.reported,
            "shared": share,
            "folder": look.folder,
            "same_traces": bool(look.traces),
        }
        for look, share in earlier
    ]


def _value_digests(scores: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Return what stands for scores, shape (n,), to about four digits.

    Two computations of one value may differ in the last ones.
    """
    bits = (scores + 0.0).astype(np.float32).view(np.uint32).astype(np.uint64)
    return scattered((bits + np.uint64(512)) >> np.uint64(10))
