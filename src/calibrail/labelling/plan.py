"""The plan of a session, fixed before the first label: order, lots, external labels.

All of it follows from the seed and from what is drawn, so that nothing needs to be remembered: the
same traces, in whatever order they are stored, are drawn in the same one.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.options import Promise, Requirement
from calibrail.options.fields import spell_option
from calibrail.options.labelling import Drawing
from calibrail.serialization import Record


@dataclass(frozen=True, slots=True)
class Order:
    """The order of drawing that a seed gives.

    Examples
    --------
    >>> order = Order(seed=0)
    >>> order.unit(Example(response="a", group="q1")) == order.unit(Example(group="q1"))
    True
    >>> 0.0 <= order.lot("labelled", "0123456789abcdef") < 1.0
    True
    """

    seed: int

    def unit(self, example: Example, digest: str | None = None) -> str:
        """Return the place of what is drawn: 32 hexadecimal digits, drawn in ascending order.

        The group of the answer is drawn, or where it has none the answer itself, of which copies
        word for word are one.
        """
        if example.group is not None:
            return self._hash("group", example.group)
        return self.alone(digest or example.digest())

    def alone(self, digest: str) -> str:
        """Return the place of what is drawn by itself, likewise."""
        return self._hash("answer", digest)

    def within(self, digest: str) -> str:
        """Return the place of an answer among those of its group, likewise."""
        return self._hash("within", digest)

    def lot(self, purpose: str, digest: str) -> float:
        """Return a number in [0, 1) for an answer, another one for each purpose."""
        return int(self._hash(purpose, digest)[:13], 16) / 2.0**52

    def _hash(self, *parts: str) -> str:
        text = "\0".join((str(self.seed), *parts)).encode("utf-8", "surrogatepass")
        return hashlib.sha256(text).hexdigest()[:32]


#: What rounding may take from a probability, and from its being the same for all.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Lots:
    """What a file says about the labels of answers.

    Attributes
    ----------
    path : Path
        The file.
    sha256 : str
        Of its bytes.
    rows : mapping of str to mapping
        By id: ``label`` as it stands there, ``probability``, and ``where`` it stands. Answers
        without a label were not labelled.
    weighted : bool
        Whether answers were to be labelled with different probabilities.
    """

    path: Path
    sha256: str
    rows: Mapping[str, Mapping[str, Any]]
    weighted: bool

    def fell(self, id: str, least: float) -> tuple[float, bool]:
        """Return with which probability an answer was to be labelled, and whether it was.

        Raises
        ------
        InputError
            It was labelled with a lower probability than the least one that counts.
        """
        row = self.rows.get(id)
        if row is None:
            return least, False
        if not self.weighted:
            # Of equal ones those that were labelled are a uniform sample themselves.
            return 1.0, True
        if row["probability"] < least - _ROUNDING:
            raise InputError(
                f"{row['where']}: the probability of {id!r} is {row['probability']:g}, below the "
                f"least one that counts, {least:g} (a passed answer needs twice the floor); begin "
                f"in another folder with a lower {spell_option(Drawing, 'floor')}"
            )
        return float(row["probability"]), True


@dataclass(frozen=True, slots=True)
class Balance(Record):
    """How many traces labels stand for by their probabilities, beside how many there are.

    Attributes
    ----------
    labelled, traces : int
        Labels of the file, and traces.
    estimate : float
        Sum of 1 / probability over the labels, which estimates the number of traces without bias
        (Horvitz and Thompson 1952).
    p : float
        At most the chance of so great a difference where the probabilities are those of the lot.
    """

    labelled: int
    traces: int
    estimate: float
    p: float


#: What labels are for.
Purpose = Literal["certify", "calibrate", "watch"]


@dataclass(frozen=True, slots=True)
class Traces(Record):
    """The answers that are drawn from.

    Attributes
    ----------
    paths : tuple of str
        As they were named; empty for data in memory.
    files : tuple of str
        Size and time of change of each file: while these stay, so does the digest.
    sha256 : str or None
        Of the file, or of the names and digests of several.
    n : int
        Usable answers.
    n_quarantined, n_seen_before : int
        Rows that cannot be labelled, and answers passed over since they set the threshold.
    freshness : str
        Whether the answers are other ones than those that set the threshold, as in ``certify``.
    """

    paths: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    sha256: str | None = None
    n: int = 0
    n_quarantined: int = 0
    n_seen_before: int = 0
    freshness: str = "new"


@dataclass(frozen=True, slots=True)
class SessionPlan(Record):
    """The content of ``session.json``: everything that is fixed before the first label.

    Attributes
    ----------
    purpose : {"certify", "calibrate", "watch"}
        Labels for the verdict about a frozen guardrail, for a threshold, or of answers that a
        guardrail has decided about, drawn from its decision log.
    traces : Traces
        The answers that are drawn from; empty where that is a decision log.
    drawing : Drawing
        How they are drawn.
    seed : int
        Of the order and of all lots.
    shared : float
        Share of the answers that two people label.
    guardrail : str or None
        Digest of the frozen guardrail, whose file is ``guardrail.json`` in the folder.
    guardrail_file : str or None
        Where it was read from, if from a file: beside it stands which answers it was looked at on.
    requirement : Requirement or None
        Of the verdict, both limits filled in.
    promise : Promise or None
        Of the threshold.
    needed : int or None
        Hallucinated answers that the promise needs.
    guess : str or None
        Column that P(hallucinated) is guessed from; without it what has been labelled so far.
    reading : mapping
        How the traces were read, as ``Reading.how`` tells it.
    elsewhere : str or None
        SHA-256 of the file of labels that were made elsewhere, whose lots decided what is labelled;
        None where the seed does.
    per_day : float or None
        Answers of a decision log that people are to label for each day, unless a later call names
        another number.
    balance : Balance or None
        How many traces those labels stand for, beside how many there are.
    """

    purpose: Purpose
    traces: Traces
    drawing: Drawing = field(default_factory=Drawing)
    seed: int = 0
    shared: float = 0.0
    guardrail: str | None = None
    requirement: Requirement | None = None
    promise: Promise | None = None
    needed: int | None = None
    guess: str | None = None
    reading: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: str | None = None
    guardrail_file: str | None = None
    balance: Balance | None = None
    per_day: float | None = None

    schema: ClassVar = "calibrail.labels/1"
