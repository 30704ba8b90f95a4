"""Agree()."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from os import PathLike
from typing import Any, Final, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import ClassCounts, certify_groups, holm
from calibrail.conformal.bounds import Bound
from calibrail.conformal.group_thresholds import group_name
from calibrail.data.example import Example, shorten
from calibrail.data.labels import LabelReader, TieError, another_column, label_key, label_remedy
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, spoken
from calibrail.data.splits import CALIBRATION, TEST
from calibrail.data.suggested_options import direction_of
from calibrail.data.values import column_value, number_in, parse_cell, value_at
from calibrail.errors import DataError, InputError, file_errors
from calibrail.evaluation import confounds, judge_agreement
from calibrail.evaluation.judge_agreement import NONE, Agreement, LabelCounts, Rate, RateName
from calibrail.evaluation.stats.intervals import missing
from calibrail.formatting import Shown
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.options import (
    Promise,
    ReadOptions,
    Requirement,
    ScoreThreshold,
    SplitOptions,
    fields,
)
from calibrail.options.data import SKIP, ReadKeywords
from calibrail.options.fields import direction, optional, share
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import data_reuse, independence, scoring
from calibrail.pipelines.calibration_overlap import Fresh, withdrawn_for
from calibrail.pipelines.loading import Context, batches, open_source, source_name
from calibrail.report.documents import agree as words
from calibrail.report.messages import say, spell
from calibrail.scores.registry import build_column, key_of
from calibrail.serialization import Record

#: From answers to flags, with how many scores were undefined, and on how many it failed.
Decide = Callable[[Sequence[Example]], tuple[Sequence[bool], int, int]]


def _flagging(
    guardrail: Guardrail | None, scores: ScoreThreshold | None
) -> tuple[tuple[str, ...], Mapping[str, Any] | None, Decide]:
    """Return the columns that what flags answers reads, how a result names it, and what decides."""
    if guardrail is not None and scores is not None:
        raise InputError("give a guardrail or a score column with its threshold, not both")
    if scores is not None:
        column, higher, edge = str(scores.column), str(scores.higher), float(scores.threshold or 0)
        # The column's score is turned so that higher means hallucinated; so is its threshold.
        score = build_column(column, higher=higher)
        edge = edge if higher == "hallucinated" else -edge

        def reach(examples: Sequence[Example]) -> tuple[Sequence[bool], int, int]:
            values = score.score(examples).values
            undefined = np.isnan(values)
            return ((values >= edge) | undefined).tolist(), int(undefined.sum()), 0

        return (column,), scores.to_dict(), reach
    if guardrail is None:
        return (), None, lambda examples: ([False] * len(examples), 0, 0)
    calibration, decide_all = guardrail.rule.calibration, guardrail.decide

    def decide(examples: Sequence[Example]) -> tuple[Sequence[bool], int, int]:
        decisions = decide_all(examples)
        failed = sum(decision.outcome == "error" for decision in decisions)
        undefined = sum(decision.score is None for decision in decisions) - failed
        # Every answer that the guardrail does not pass.
        return [decision.flagged for decision in decisions], undefined, failed

    threshold = None if calibration.flag_all else float(calibration.threshold)
    described = {"guardrail": guardrail.score.name, "threshold": threshold}
    return guardrail.columns, described, decide


class _Labels:
    """Reads the labels of each row; sets rows aside where one is neither 0, 1 nor blank.

    A judge whose column holds other numbers gives ratings: their values stand for its labels,
    turned so that higher means hallucinated.
    """

    def __init__(
        self,
        source: str,
        reading: ReadOptions,
        human: str,
        judges: Sequence[str],
        higher: str | None,
        rows: Reading,
        by_people: Mapping[str, int] | None,
    ) -> None:
        self._source, self._reading, self._by_people = source, reading, by_people
        self._names = human, *judges
        people, *others = ([value_at(row, name) for row in rows.head] for name in self._names)
        self._readers, self.signs = list[LabelReader](), list[float]()
        for column, first in zip(judges, others, strict=True):
            # A value of the judge's alone says nothing of the words of people.
            named = {label_key(value) for value in first} - {label_key(value) for value in people}
            for_judge = reading.positive is not None and label_key(reading.positive) in named
            beside = people if for_judge else None
            if not self._readers:
                names = rows.class_names.get(human, ())
                self._readers.append(LabelReader(reading, human, names=names, beside=beside))
            names = rows.class_names.get(column, ())
            self._readers.append(LabelReader(reading, column, names=names, beside=first))
            self.signs.append(_sign(column, first, higher))
        #: Rows that were set aside.
        self.entries: list[str] = []
        self.first: str | None = None

    def warnings(self) -> Iterator[str]:
        """Yield that options which say what labels mean were not used for a column."""
        for reader in (item for item in self._readers if item.is_explicit and item.n_own):
            yield say("agree.read_by_itself", column=repr(reader.column))

    def read(self, example: Example) -> tuple[float, ...] | None:
        """Return all labels, those of people first; None where one cannot be read."""
        read: list[float] = []
        for reader, sign in zip(self._readers, (0.0, *self.signs), strict=True):
            if not read and self._by_people is not None:
                read.append(self._by_people.get(example.id, NONE))
                continue
            cell = example.columns.get(reader.column)
            label = _rating(cell, sign) if sign else _label(cell, reader)
            if label is None:
                self._set_aside(example, reader, rated=bool(sign))
                return None
            # What a judge left blank is no number, whatever its numbers are.
            read.append(np.nan if read and not sign and label == NONE else label)
        return tuple(read)

    def _set_aside(self, example: Example, reader: LabelReader, *, rated: bool) -> None:
        column = reader.column
        value = example.columns[column]
        # The reader numbers rows without an id of their own.
        number = example.id.removeprefix("row-")
        row = int(number) if number.isdecimal() and number != example.id else None
        where = f"id {example.id!r}" if row is None else f"row {row}"
        remedy = label_remedy(value, reader).removesuffix(another_column())
        wanted = "no number" if rated else "not 0 or 1"
        remedy = "this judge gives ratings" if rated else remedy
        problem = (
            f"{self._source}, {where}, field {column}: {wanted}, got {shorten(value)}. "
            f"{remedy[0].upper()}{remedy[1:]}; leave the cell empty where there is no label"
        )
        if self._reading.strict:
            raise DataError(problem)
        self.first = self.first or problem
        entry = {"row": row, "id": example.id, "field": column, "reason": wanted}
        self.entries.append(json.dumps({**entry, "value": shorten(value)}) + "\n")

    def append(self) -> None:
        """Write the rows behind those that the reader has put into the quarantine file."""
        path = self._reading.quarantine
        if path is None or not self.entries:
            return
        with file_errors(f"cannot write {path}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8", newline="\n") as file:
                file.writelines(self.entries)


def _label(value: object, reader: LabelReader) -> int | None:
    """Return a label's index in the counts; None where it can be read as neither."""
    listed = parse_cell(value) if isinstance(value, str) else None
    try:
        label = reader(value if listed is None else listed)
    except TieError:
        return None
    if reader.is_missing(value) or label == SKIP:
        return NONE
    return label if isinstance(label, int) else None


def _sign(column: str, first: Sequence[object], higher: str | None) -> float:
    """Return how a judge's ratings are turned, so that higher means hallucinated; 0 of labels."""
    cells = [cell for value in first if (cell := column_value(value)) is not None]
    if {number_in(cell) for cell in cells} <= {None, 0.0, 1.0} or any(
        number_in(cell) is None for cell in cells
    ):
        return 0.0
    higher = higher or direction_of(column)
    if higher is None:
        raise InputError(say("refused.which_rating", column=column))
    direction(higher, ScoreThreshold)
    return 1.0 if higher == "hallucinated" else -1.0


def _rating(value: object, sign: float) -> float | None:
    """Return a rating, higher for hallucinated; NaN of an empty cell, None of what is no number."""
    if (cell := column_value(value)) is None:
        return np.nan
    number = number_in(cell)
    return None if number is None else sign * number


SCHEMA: Final = "calibrail.agreement/1"


@dataclass(frozen=True, slots=True)
class JudgeResult(Record):
    """A judge beside people: how it errs, whether it may stand in for them, and rates from both.

    Attributes
    ----------
    judge : str
        Its column.
    threshold : float or None
        Of a judge with ratings, in its own numbers: called hallucinated at it and beyond.
    caught, false_alarms : Bound
        The shares of hallucinated and of faithful answers that it calls hallucinated, on
        independent answers; their exact intervals hold together.
    verdict, reason, needed : str, str and mapping, or None
        Whether it keeps both limits; how many more labels would settle it. None without limits.
    certificate : mapping
        All that the verdict rests on, corrected for the number of judges.
    counts : LabelCounts
        Rows by human label, judge label and flag.
    agreement : Agreement
        How far it agrees with people.
    rates : mapping of str to mapping of str to RateEstimate
        ``prevalence``, and where something flags answers ``coverage`` and ``fpr``.
    sample : tuple of ShareTest
        Whether the rows with a human label look like a random sample.
    errs : tuple of mapping
        By what its errors differ: ``feature``, ``strata`` with ``n`` and ``n_wrong``, ``p_holm``.
    """

    judge: str
    threshold: float | None
    caught: Bound
    false_alarms: Bound
    verdict: str | None
    reason: str | None
    needed: Mapping[str, int | None] | None
    certificate: Mapping[str, Any]
    counts: LabelCounts
    agreement: Agreement
    rates: Mapping[RateName, Rate]
    sample: tuple[judge_agreement.ShareTest, ...]
    errs: tuple[Mapping[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, JSON-able."""
        agreement = self.agreement.to_dict()
        for name in ("agreement", "sensitivity", "specificity"):
            agreement[name]["reason"] = None if agreement[name]["n"] else words.code_message(name)
        return {
            **{name: getattr(self, name) for name in ("judge", "threshold", "verdict", "reason")},
            "caught": self.caught.to_dict(),
            "false_alarms": self.false_alarms.to_dict(),
            "needed": self.needed and dict(self.needed),
            "certificate": dict(self.certificate),
            "counts": self.counts.to_dict(),
            "agreement": agreement,
            "rates": {
                name: {method: item.to_dict() for method, item in rate.items()}
                for name, rate in self.rates.items()
            },
            "random_sample": [test.to_dict() for test in self.sample],
            "errs": list(self.errs),
        }


@dataclass(frozen=True, slots=True, repr=False)
class JudgedRates(Shown):
    """Judges beside people, the verdicts about them, and the rates that both together give.

    Attributes
    ----------
    judges : tuple of JudgeResult
        In the order given.
    by : tuple of mapping
        One a judge and segment: ``judge``, ``segment``, ``caught``, ``false_alarms``, ``verdict``,
        ``needed``, ``certificate``, ``prevalence`` and ``counts``.
    errors : tuple of mapping
        Rows on which judge and people disagree: ``judge``, ``segment``, ``id``, ``human``,
        ``response``.
    requirement : Requirement
        What was asked for, at the confidence that this look has.
    columns : mapping
        The columns of human labels, of judges, of segments and of drawing probabilities.
    flag : mapping or None
        What flags: ``guardrail``, or ``column``, ``higher`` and ``threshold``.
    data : mapping
        Source, digest and numbers of rows, JSON-able.
    warnings : tuple of str
        What weakens the result, in plain words.
    """

    shown_as = "agree"

    judges: tuple[JudgeResult, ...]
    by: tuple[Mapping[str, Any], ...]
    errors: tuple[Mapping[str, Any], ...]
    requirement: Requirement
    columns: Mapping[str, Any]
    flag: Mapping[str, Any] | None
    data: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def n_quarantined(self) -> int:
        """Rows that could not be used."""
        return int(self.data["n_quarantined"])

    @property
    def verdict(self) -> str | None:
        """The worst of the judges' verdicts; None where no limits were named."""
        found = {item.verdict for item in self.judges}
        return next((item for item in independence.WORSE_FIRST if item in found), None)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail agree --json`` prints."""
        return {
            "schema": SCHEMA,
            "confidence": self.requirement.confidence,
            "min_caught": self.requirement.min_coverage,
            "max_false_alarms": self.requirement.max_fpr,
            "verdict": self.verdict,
            "columns": dict(self.columns),
            "flag": None if self.flag is None else dict(self.flag),
            "data": dict(self.data),
            "judges": [item.to_dict() for item in self.judges],
            "by": [dict(item) for item in self.by],
            "errors": [dict(item) for item in self.errors],
            "warnings": list(self.warnings),
        }


@dataclass(slots=True)
class _Rows:
    """What is kept of the rows: labels, flags, segments, and the answers that people labelled."""

    labels: list[tuple[float, ...]]
    flags: list[bool]
    segments: list[str]
    chances: list[float | None]
    people: dict[int, Example]

    def thinned(self) -> int:
        """Let a lot undo unequal probabilities of being labelled; return how many labels it took.

        A row that was drawn with probability q stays with min q / q, by a hash of its content: what
        stays was drawn with equal probabilities.
        """
        least = min((chance for chance in self.chances if chance is not None), default=1.0)
        taken = [
            row
            for row, example in self.people.items()
            if int(example.digest(), 16) / 2.0**64 >= least / cast(float, self.chances[row])
        ]
        for row in taken:
            self.set_aside(row)
        return len(taken)

    def set_aside(self, row: int) -> None:
        """Forget a row's human label."""
        self.people.pop(row)
        self.labels[row] = NONE, *self.labels[row][1:]


@options_from_keywords(reading=ReadOptions)
def agree(
    source: Source,
    *,
    judge_column: str | Sequence[str] = (),
    labels: Source | None = None,
    min_caught: float | None = None,
    max_false_alarms: float | None = None,
    by: str | None = None,
    judge_higher: str | None = None,
    probability: str | None = None,
    guardrail: Guardrail | str | PathLike[str] | None = None,
    scores: ScoreThreshold | None = None,
    confidence: float = 0.95,
    assume_independent: bool = False,
    n_looks: int | None = None,
    looks: data_reuse.LooksFile = None,
    reading: ReadOptions | None = None,
    context: Context | None = None,
    **how: Unpack[ReadKeywords],
) -> JudgedRates:
    """Say whether a judge may stand in for people, and estimate rates from both.

    Rows take no part where a label is neither 0, 1 nor blank; they go to the quarantine file.

    Parameters
    ----------
    source : path, str or iterable of Example
        Answers with a column of judge labels (most rows) and one of human labels (a few rows,
        blank elsewhere); of examples in memory, ``Example.columns`` holds them.
    judge_column : str or sequence of str
        The judges: 1 = hallucinated, 0 = faithful, blank = no label; or ratings. Where one has
        ratings, half of the human labels, by group, choose its threshold, and the rest tests.
    labels : path or iterable of Example, optional
        Where the human labels are, by the ids of the source, if they are not in its label column.
    min_caught, max_false_alarms : float, optional
        What a judge is to keep, for a verdict: the share of hallucinated answers that it calls so
        at least, and of faithful ones at most. Both or neither.
    by : str, optional
        Column of segments, each of which gets its own rates and verdict, too.
    judge_higher : {"hallucinated", "faithful"}, optional
        What a higher rating means; what the column's name says where that is clear.
    probability : str, optional
        Column of the probabilities, in (0, 1], with which rows were drawn for people.
    guardrail : Guardrail, optional
        Flags every answer that it does not pass. Hallucinated answers that set its threshold are
        left out.
    scores : ScoreThreshold, optional
        A column of scores that flags, in the guardrail's place, and answers without a score.
    confidence : float
        Of all judges' verdicts together, of those of all segments, and of every interval.
    assume_independent : bool
        Count every answer, although answers of one group are alike.
    n_looks : int, optional
        How many verdicts there will be, declared with the first.
    looks : path, optional
        File that keeps what was looked at, as that of `calibrate`.
    reading : ReadOptions, optional
        How to read the file; ``label_column`` holds the human labels (default ``human``). Its
        fields may stand by themselves.
    context : Context, optional
        Who is told of the number of rows so far.

    Returns
    -------
    JudgedRates

    Raises
    ------
    InputError
        If columns are the same, one limit is missing, or what flags is named twice.
    DataError
        If no row has a human label, or none a judge label; with ``strict`` at the first label that
        cannot be read.

    Examples
    --------
    >>> from calibrail import Example
    >>> rows = [Example(id=str(i), columns={"human": str(i % 2) if i < 200 else None,
    ...                                     "judge": str(i % 2)}) for i in range(2000)]
    >>> result = agree(rows, label_column="human", judge_column="judge", min_caught=0.8,
    ...                max_false_alarms=0.2)
    >>> result.verdict, result.judges[0].caught.count, round(result.judges[0].caught.lower, 3)
    ('certified', 100, 0.957)
    """
    level, reading = share(confidence, "confidence"), optional(reading, ReadOptions, "reading")
    judges = (judge_column,) if isinstance(judge_column, str) else tuple(judge_column)
    human = cast(str, "human" if reading.label_column is None else reading.label_column)
    if not judges:
        raise InputError("judge_column must name at least one column")
    for name, value in (("label_column", human), *(("judge_column", item) for item in judges)):
        fields.column(value, name)
    named = (*judges, *((human,) if labels is None else ()))
    if repeated := [item for item, n in Counter(named).items() if n > 1]:
        raise InputError(
            f"labels of people and judges must be two columns; got {repeated[0]!r} twice"
        )
    if (min_caught is None) != (max_false_alarms is None) or (n_looks and min_caught is None):
        raise InputError(say("refused.one_goal", nothing=min_caught is max_false_alarms))
    limits = Requirement(max_false_alarms, min_caught, level, assume_independent, n_looks=n_looks)
    guardrail = None if guardrail is None else Guardrail.coerce(guardrail)
    if guardrail is not None:
        require_answers(guardrail.config, "agree")
    columns, described, decide = _flagging(guardrail, scores)
    context, by_people = optional(context, Context, "context"), None
    if labels is not None:
        found = list(open_source(labels, replace(reading, quarantine=None, group_column=None)))
        if any(item.content is not None for item in found):
            raise DataError(say("refused.labels_without_ids", name=spoken(labels)))
        by_people = {item.id: int(item.label or 0) for item in found}
    further = [item for item in (by, probability) if item is not None]
    examples = open_source(
        source,
        replace(reading, label_column=None),
        keep=tuple(dict.fromkeys((*named, *columns, *further))),
        labelled=False,
    )
    name, fresh = spoken(source), Fresh(guardrail)
    pairs = _Labels(name, reading, human, judges, judge_higher, examples, by_people)
    rows, n_undefined, n_errors, met = _Rows([], [], [], [], {}), 0, 0, set[str]()
    readable = ((item, read) for item in examples if (read := pairs.read(item)) is not None)
    for some in batches(readable):
        # Near copies are looked for many at a time.
        batch = [*compress(some, fresh.admits([example for example, _ in some]))]
        flags, undefined, errors = decide([example for example, _ in batch])
        n_undefined, n_errors = n_undefined + undefined, n_errors + errors
        for example, read in batch:
            if read[0] != NONE:
                rows.people[len(rows.labels)] = example
                met.add(example.id)
            rows.labels.append(read)
            rows.segments.append(group_name(None if by is None else example.columns.get(by)))
            if probability is not None:
                rows.chances.append(_chance(name, example, probability, read[0]))
        rows.flags += flags
        if context.progress is not None:
            context.progress(len(rows.labels))
    pairs.append()
    for place, column in enumerate((human, *judges)):
        if any(row[place] < NONE if not place else row[place] == row[place] for row in rows.labels):
            continue
        if not place and by_people is not None:
            raise DataError(say("refused.no_id_met", name=name, first=next(iter(by_people), "")))
        role = "judge" if place else "human"
        raise DataError(words.no_label(name, column, role, len(pairs.entries), pairs.first))
    n_thinned = 0 if probability is None else rows.thinned()
    people = [example for _, example in sorted(rows.people.items())]
    sharing = Counter(example.group for example in people if example.group is not None)
    gate = _Gate(rows, judges, pairs.signs, by, limits, looks)
    results, segments = gate.results(described is not None, by is not None)
    result = JudgedRates(
        judges=tuple(results),
        by=tuple(segments),
        errors=tuple(gate.errors()),
        requirement=gate.limits,
        columns={"human": human, "judges": list(judges), "by": by, "probability": probability},
        flag=described,
        data={
            "source": source_name(source),
            "sha256": examples.digest(),
            "n": len(rows.labels),
            "n_human": len(people),
            "n_quarantined": len(pairs.entries) + examples.n_quarantined,
            "n_seen_before": fresh.n_seen_before,
            "n_undefined": n_undefined,
            "n_errors": n_errors,
            "n_sharing_a_group": sum(sharing.values()) - len(sharing),
            "n_set_aside": gate.n_set_aside,
            "n_calibrating": gate.n_calibrating,
            "n_thinned": n_thinned,
            "n_unmet": len(by_people.keys() - met) if by_people else 0,
            "part": examples.part(),
        },
        warnings=(),
    )
    notes = [say("fixed_threshold.halved")] if gate.halved else []
    return replace(result, warnings=(*words.warnings(result.to_dict()), *notes, *pairs.warnings()))


def _chance(source: str, example: Example, column: str, human: float) -> float | None:
    """Return the probability with which a row was drawn; None where it has none and no label."""
    chance = number_in(example.columns.get(column))
    if chance is not None and 0.0 < chance <= 1.0:
        return chance
    if human == NONE:
        return None
    where = f"{source}, id {example.id!r}, field {column}"
    raise DataError(f"{where}: a labelled row needs the probability, in (0, 1], it was drawn with")


class _Gate:
    """Tests judges on the answers that people labelled, and counts all rows by their labels."""

    def __init__(
        self,
        rows: _Rows,
        judges: Sequence[str],
        signs: Sequence[float],
        by: str | None,
        limits: Requirement,
        looks: data_reuse.LooksFile,
    ) -> None:
        self._rows, self._judges, self._signs = rows, judges, signs
        self._asked = limits.max_fpr is not None
        examples = [
            replace(
                example,
                label=int(rows.labels[row][0]),
                columns={
                    **example.columns,
                    **{
                        judge: None if np.isnan(value) else value
                        for judge, value in zip(judges, rows.labels[row][1:], strict=True)
                    },
                },
            )
            for row, example in sorted(rows.people.items())
        ]
        columns = [build_column(judge, higher="hallucinated") for judge in judges]
        scored = scoring.score_source(
            examples,
            columns,
            splitting=SplitOptions(calibration_share=0.5) if any(signs) else None,
            companions=False,
        )
        self._examples, self._scored, table = examples, scored, scored.table
        self._values = [table.columns[key_of(column)] for column in columns]
        place = {example.id: row for row, example in rows.people.items()}
        self._at = np.array([place[str(id)] for id in table.ids.to_pylist()])
        self.segments = sorted(set(rows.segments))
        self._segment = np.array([rows.segments[row] for row in self._at], dtype=object)
        self.n_calibrating = int(np.sum(scored.codes == CALIBRATION))
        self._edges = [self._edge(k, limits) for k in range(len(judges))]
        for row in self._at[scored.codes == CALIBRATION].tolist():
            rows.set_aside(row)
        alpha = 1.0 if limits.min_coverage is None else 1.0 - limits.min_coverage
        self._promise = Promise(alpha, "fixed")
        history = data_reuse.DataUseHistory(looks)
        look, self._standing = data_reuse.begin_report(
            history,
            scored,
            scored.keys,
            self._promise,
            limits,
            threshold=cast(Any, self._edges),
            asked=self._asked,
        )
        self.halved = self._asked and self._standing.share == 0.5 and not self._standing.declared
        self.limits = self._standing.strict(limits) if self._asked else limits
        self.n_set_aside = 0
        self._verdicts = self._decided()
        conclusion = {item["verdict"] for key, item in self._verdicts.items() if key[1] is None}
        worst = next(item for item in independence.WORSE_FIRST if item in conclusion)
        history.conclude(data_reuse.SPLIT, look, worst)

    def _edge(self, k: int, limits: Requirement) -> float:
        """Return the threshold of a judge, of ratings the one that keeps the limits best."""
        if not self._signs[k]:
            return 1.0
        values, labels = self._values[k], self._scored.table.labels
        rows = (self._scored.codes == CALIBRATION) & ~np.isnan(values)
        caught, alarms = (np.sort(values[rows & (labels == label)]) for label in (1, 0))
        if not len(caught) or not len(alarms):
            raise DataError(say("refused.no_class_to_calibrate", judge=self._judges[k]))
        edges = np.unique(values[rows])
        shares = [1.0 - np.searchsorted(part, edges) / len(part) for part in (caught, alarms)]
        least, most = limits.min_coverage or 0.0, limits.max_fpr or 0.0
        slack = np.minimum(shares[0] - least, most - shares[1])
        best = slack if self._asked else shares[0] - shares[1]
        return float(edges[int(np.argmax(best))])

    def _called(self, k: int) -> NDArray[np.bool_]:
        return self._values[k] >= self._edges[k]

    def _counts(
        self, way: scoring.Scored, k: int | None = None
    ) -> dict[tuple[str, str | None], ClassCounts]:
        """Count what judges call hallucinated of the answers that are independent."""
        samples, result = independence.independent(way, self._promise, self.limits)[0], {}
        for j, judge in enumerate(self._judges):
            if k in (None, j):
                sample = samples[j]
                self.n_set_aside = max(self.n_set_aside, sample.n_set_aside)
                drawn = sample.drawn(TEST, sample.labels) & ~np.isnan(self._values[j])
                result[judge, None] = sample.counts(self._called(j), drawn)
                for name in self.segments:
                    among = drawn & (self._segment == name)
                    result[judge, name] = sample.counts(self._called(j), among)
        return result

    def _decided(self) -> dict[tuple[str, str | None], dict[str, Any]]:
        """Return the certificates of judges, and of judges in segments: a family each."""
        ways = [self._counts(way) for way in independence.readings(self._scored, self.limits)]
        if len(ways) > 1:
            worst = {}
            for k in range(len(self._judges)):
                worst |= self._counts(independence.at_worst(self._scored, self._called(k)), k)
            ways.append(worst)
        asked = self.limits if self._asked else replace(self.limits, min_coverage=0.5)
        result, data = {}, self._scored.data
        for whole in (True, False):
            keys = [key for key in ways[0] if (key[1] is None) == whole]
            made = [
                _certificates(asked, {"\0".join(map(str, key)): way[key] for key in keys})
                for way in ways
            ]
            for key, *contents in zip(keys, *made, strict=True):
                content = dict(contents[0])
                if len(contents) > 1:
                    worse, left = independence.worse_of(contents, data["n_near_copies"])
                    content = {**worse, **left}
                assumed = self.limits.assume_independent
                content = independence.settled(content, data["n_alike"], assumed=assumed)
                if self._standing.earlier:
                    content = data_reuse.certificate_after_reuse(content, self._standing)
                result[key] = {**content, "reason": spell(content["reason"])}
        return result

    def _cells(self, k: int, segment: str | None, *, decided: bool) -> LabelCounts:
        """Count rows by human label, judge label and flag."""
        cells = np.zeros((3, 3, 2), np.int64)
        for read, flag, name in zip(
            self._rows.labels, self._rows.flags, self._rows.segments, strict=True
        ):
            if segment in (None, name):
                value = read[k + 1]
                called = NONE if np.isnan(value) else int(value >= self._edges[k])
                cells[int(read[0]), called, int(flag)] += 1
        return LabelCounts(cells, decided)

    def _row(self, k: int, segment: str | None, counts: LabelCounts) -> dict[str, Any]:
        """Return the verdict about a judge, none where labels are no random sample."""
        content, verdict = self._verdicts[self._judges[k], segment], {}
        n = 1 if segment is None else len(self.segments)
        tests = judge_agreement.sample_tests(counts, judge_agreement.SAMPLE_LEVEL / n)
        sample = tuple(
            replace(test, share=say(f"agree.{test.share}"), reason=words.code_message(test.reason))
            for test in tests
        )
        if doubt := words.differing([test.to_dict() for test in sample]):
            content = {
                **content,
                **withdrawn_for("no_sample", say("agree.no_verdict", doubt=doubt)),
            }
        if self._asked:
            verdict = {name: content[name] for name in ("verdict", "reason", "needed")}
        region = content["region"]
        return {
            **dict.fromkeys(("verdict", "reason", "needed")),
            **verdict,
            "caught": region["coverage"],
            "false_alarms": region["fpr"],
            "certificate": content,
            "sample": sample,
        }

    def results(self, decided: bool, by: bool) -> tuple[list[JudgeResult], list[dict[str, Any]]]:
        """Return what is known of every judge, and of every judge in every segment."""
        results, segments = list[JudgeResult](), list[dict[str, Any]]()
        level, errs = self.limits.confidence, self._errs()
        for k, judge in enumerate(self._judges):
            counts, parts = self._cells(k, None, decided=decided), list[LabelCounts]()
            row = self._row(k, None, counts)
            rates = {
                key: _in_words(key, rate, row["sample"])
                for key, rate in judge_agreement.corrected_rates(counts, level).items()
            }
            within = tuple[judge_agreement.ShareTest, ...]()
            for name in self.segments if by else ():
                parts.append(self._cells(k, name, decided=decided))
                part = self._row(k, name, parts[-1])
                within += (sample := part.pop("sample"))
                found = judge_agreement.corrected_rates(parts[-1], level)["prevalence"]
                found = _in_words("prevalence", found, sample)
                rate = {method: item.to_dict() for method, item in found.items()}
                about = {"judge": judge, "segment": name, "counts": parts[-1].to_dict()}
                segments.append({**about, **part, "prevalence": rate})
            if by:
                found = {"stratified": judge_agreement.stratified(parts, level)}
                rates["prevalence"] = {
                    **rates["prevalence"],
                    **_in_words("prevalence", cast(Rate, found), within),
                }
            edge = self._signs[k] * self._edges[k] if self._signs[k] else None
            row |= {name: Bound(**row[name]) for name in ("caught", "false_alarms")}
            results.append(
                JudgeResult(
                    judge=judge,
                    threshold=edge,
                    counts=counts,
                    agreement=_agreement(counts, level),
                    rates=rates,
                    errs=tuple(errs[k]),
                    **row,
                )
            )
        return results, segments

    def _errs(self) -> list[list[dict[str, Any]]]:
        """Return by which features, and by the segment, the errors of each judge differ."""
        table, found = self._scored.table, list[list[dict[str, Any]]]()
        divisions = [
            *(confounds.thirds(key, table.columns[key]) for key in self._scored.baselines),
            confounds.by_column("segment", self._segment.tolist()),
        ]
        for k in range(len(self._judges)):
            sample = independence.independent(self._scored, self._promise, self.limits)[0][k]
            drawn = sample.drawn(TEST, sample.labels) & ~np.isnan(self._values[k])
            wrong = self._called(k) != (table.labels == 1)
            rows = [
                judge_agreement.errors_by(division, wrong, drawn)
                for division in divisions
                if division is not None
            ]
            found.append([row for row in rows if row is not None])
        adjusted = iter(holm([row["p_value"] for rows in found for row in rows]).tolist())
        return [[{**row, "p_holm": next(adjusted)} for row in rows] for rows in found]

    def errors(self) -> Iterator[dict[str, Any]]:
        """Yield the tested answers on which a judge and people disagree, segment by segment."""
        labels = self._scored.table.labels
        for k, judge in enumerate(self._judges):
            wrong = (self._called(k) != (labels == 1)) & ~np.isnan(self._values[k])
            rows = np.flatnonzero(wrong & (self._scored.codes == TEST)).tolist()
            for row in sorted(rows, key=lambda row: self._segment[row]):
                example = self._examples[row]
                yield {
                    "judge": judge,
                    "segment": str(self._segment[row]),
                    "id": example.id,
                    "human": int(labels[row]),
                    "response": example.response,
                }


def _certificates(
    requirement: Requirement, counts: Mapping[str, ClassCounts]
) -> list[dict[str, Any]]:
    """Return the certificates of a family of counts, corrected for their number (Holm)."""
    return [item.certificate.to_dict() for item in certify_groups(counts, requirement).values()]


def _in_words(
    name: RateName, rate: Rate, sample: Sequence[judge_agreement.ShareTest]
) -> dict[judge_agreement.Method, judge_agreement.RateEstimate]:
    """Return the estimates with sentences in place of codes; none from what is no sample."""
    doubt = words.differing([test.to_dict() for test in sample])
    result = {}
    for method, item in rate.items():
        measure = replace(item.measure, reason=words.reason(name, item))
        if doubt and measure.estimate is not None and method != "rogan_gladen":
            reason = say("agree.no_sample", doubt=doubt)
            measure = missing(measure.method, reason, measure.confidence)
        result[method] = replace(
            item,
            measure=measure,
            assumption=say(f"agree.assumes_{method}"),
            promise=say(f"agree.promise_{method}"),
        )
    return result


def _agreement(counts: LabelCounts, level: float) -> Agreement:
    """Return the agreement with sentences in place of codes."""
    result = judge_agreement.agreement(counts, level)
    kappa = replace(result.kappa, reason=words.code_message(result.kappa.reason))
    asymmetry = replace(result.asymmetry, reason=words.code_message(result.asymmetry.reason))
    return replace(result, kappa=kappa, asymmetry=asymmetry)
