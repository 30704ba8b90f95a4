"""What was agreed on before the first label?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from calibrail.labelling.balance import Balance
from calibrail.record import Record
from calibrail.settings import Promise, Requirement
from calibrail.settings.drawing import Drawing

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
