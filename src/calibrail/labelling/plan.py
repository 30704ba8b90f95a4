"""The plan of a session, fixed before the first label: order, lots, external labels.

All of it follows from the seed and from what is drawn, so that nothing needs to be remembered: the
same traces, in whatever order they are stored, are drawn in the same one.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import exp, fsum
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from calibrail.data.example import Example
from calibrail.data.rows import RowProblem
from calibrail.data.tables import csv_rows
from calibrail.errors import DataError, InputError, file_errors
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


def read_lots(path: str | Path, drawing: Drawing) -> Lots:
    """Read labels that were made elsewhere: CSV or JSON lines of id, label and probability.

    Raises
    ------
    DataError
        The file cannot be read.
    InputError
        A row has no probability, or one that is outside its domain or below the floor; an id
        stands there twice; or probabilities differ and the design is ``uniform``.
    """
    place = Path(path)
    with file_errors(f"cannot read {place}", "; name a file of id, label and probability"):
        raw = place.read_bytes()
    rows: dict[str, Mapping[str, Any]] = {}
    for where, row in _rows(place, raw):
        id, label = str(row.get("id") or ""), row.get("label")
        if not id:
            raise InputError(f"{where} has no id; give each row that of its trace")
        if label is None or (isinstance(label, str) and not label.strip()):
            continue
        if id in rows:
            raise InputError(
                f"{where}: {id!r} stands there twice, first in {rows[id]['where']}; keep one"
            )
        share = _probability(row.get("probability"), where)
        rows[id] = {**row, "label": label, "probability": share, "where": where}
    if not rows:
        raise InputError(f"{place} holds no label; give rows of id, label and probability")
    weighted = drawing.design == "active"
    _refuse_at_odds(place, rows, drawing, weighted=weighted)
    return Lots(place, hashlib.sha256(raw).hexdigest(), rows, weighted)


def _refuse_at_odds(
    path: Path, rows: Mapping[str, Mapping[str, Any]], drawing: Drawing, *, weighted: bool
) -> None:
    """Refuse probabilities that do not go with how answers are said to be drawn."""
    shares = [row["probability"] for row in rows.values()]
    if not weighted and max(shares) - min(shares) > _ROUNDING:
        raise InputError(
            f"the probabilities in {path} differ, from {min(shares):g} to {max(shares):g}: add "
            f"{spell_option(Drawing, 'design', 'active')}, which weighs them"
        )
    if not weighted and drawing.whole_groups:
        raise InputError(
            f"{path} is a sample of answers, and whole groups were to be drawn; leave out "
            f"{spell_option(Drawing, 'whole_groups', True)}"
        )
    low = [row for row in rows.values() if row["probability"] < drawing.floors[0] - _ROUNDING]
    if weighted and low:
        raise InputError(
            f"{low[0]['where']}: probability must be at least {drawing.floor:g}; got "
            f"{low[0]['probability']:g} for {low[0]['id']!r}, and {len(low):,} of {len(rows):,} "
            f"rows lie below: name a lower {spell_option(Drawing, 'floor')}, at most half of the "
            "lowest probability of an answer that the guardrail passes"
        )


def _probability(value: Any, where: str) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = float("nan")
    if not 0.0 < share <= 1.0:
        raise InputError(
            f"{where}: probability must lie in (0, 1], the one with which the answer was to be "
            f"labelled; got {value!r:.40}. Where it is not known the label cannot count"
        )
    return share


def _rows(path: Path, raw: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row with where it stands."""
    if raw.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] != b"{":
        for item in csv_rows(path):
            if isinstance(item, RowProblem):
                raise DataError(f"{path}, row {item.row}: {item.reason}; {item.remedy}")
            yield f"{path}, row {item.number}", item.values
        return
    for number, line in enumerate(raw.decode("utf-8-sig", "replace").split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            content = json.loads(line)
        except ValueError as error:
            raise DataError(f"{where} is not JSON ({error}); correct it") from error
        if not isinstance(content, dict):
            raise DataError(f"{where} must hold an object; got {content!r:.60}")
        yield where, content


#: Chance of so great a difference, or a greater one, below which labels are refused.
_REFUSED: Final = 0.001


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


def balance(lots: Lots, n: int, groups: Mapping[str, str | None], floor: float) -> Balance:
    """Compare the labels that were made elsewhere with the traces they were chosen from.

    The answers of a group may have been chosen together. The chance is exact where all
    probabilities are the same and no two labels share a group. Otherwise it is Bernstein's bound,
    with the variance of the labels there are, and the largest that missing ones may have.

    Parameters
    ----------
    lots : Lots
        What the file of labels says.
    n : int
        Traces, labelled or not.
    groups : mapping of str to str or None
        Group of each answer with a label, by its id.
    floor : float
        Least probability, where they differ.

    Raises
    ------
    InputError
        The difference has a chance below 0.001: both numbers are named.
    """
    shares = {id: float(row["probability"]) for id, row in lots.rows.items()}
    estimate = fsum(1.0 / share for share in shares.values())
    units: dict[tuple[bool, str], list[float]] = defaultdict(list)
    for id, share in shares.items():
        group = groups.get(id)
        units[group is not None, id if group is None else group].append(share)
    share = min(shares.values())
    if len(units) == len(shares) and not lots.weighted:
        from scipy.stats import binom  # Half a second that most commands need not wait for.

        below, above = binom.cdf(len(shares), n, share), binom.sf(len(shares) - 1, n, share)
        p = min(1.0, 2.0 * float(min(below, above)))
    else:
        least = floor if lots.weighted else share
        p = _bernstein(estimate, n, list(units.values()), least)
    weighed = Balance(len(shares), n, estimate, p)
    if p < _REFUSED:
        raise InputError(
            f"the labels in {lots.path} ({len(shares):,}) stand for about {estimate:,.0f} traces "
            f"by their probabilities, and there are {n:,}, which chance does not explain (p < "
            f"{_REFUSED:g}): labels were left out of the file, or the probabilities are not those "
            "of the lot that chose the answers. Give every answer that it chose (with the label "
            "unsure where nobody can tell), the probability that each had before it was chosen, "
            "and all traces that took part, and no others; where there was no such lot, these "
            "labels cannot count"
        )
    return weighed


def _bernstein(estimate: float, n: int, units: list[list[float]], least: float) -> float:
    """Return a bound on the chance that the estimate is so far from n, two-sided."""
    sizes = [fsum(1.0 / share for share in shares) for shares in units]
    pairs = zip(units, sizes, strict=True)
    variance = fsum((1.0 - min(shares)) * size**2 for shares, size in pairs)
    apart, answers = abs(estimate - n), max(map(len, units))
    if estimate > n:
        variance, largest = variance * n / estimate, max(sizes)
    else:
        # All that is missing may have had the least probability.
        variance, largest = variance + apart * answers * (1.0 - least) / least, float(answers)
    spread = variance + largest * apart / 3.0
    return 1.0 if not apart else min(1.0, 2.0 * exp(-(apart**2) / (2.0 * spread)))


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
