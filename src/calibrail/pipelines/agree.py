"""Agree()."""

from collections import ChainMap, Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from math import isnan
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import ClassCounts, certify_groups, holm
from calibrail.data.aliases import Labellers, aliases_of
from calibrail.data.example import Example
from calibrail.data.sources import Source, reusable, spoken
from calibrail.data.splits import CALIBRATION, TEST, group_numbers, merge_groups
from calibrail.data.values import group_name
from calibrail.errors import DataError, InputError, errors_as
from calibrail.evaluation import Sample, confounds, judge_agreement
from calibrail.evaluation.judge_agreement import NONE, LabelCounts, author_of, errors_by
from calibrail.evaluation.stats.intervals import missing
from calibrail.formatting import Shown
from calibrail.guardrail.file import FrozenConfig
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.labelling.folder import read_plan
from calibrail.labelling.ledger import Order
from calibrail.labelling.replay import drawn_answers, evenly_labelled
from calibrail.options import ReadOptions, Requirement, ScoreThreshold, SplitOptions, fields
from calibrail.options.data import SKIP, ReadKeywords, judge_of
from calibrail.options.fields import optional, share
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import data_reuse, independence, loading, scoring
from calibrail.pipelines.calibration_overlap import Fresh, withdrawn_for
from calibrail.pipelines.fixed_threshold import asked_of, flagging
from calibrail.pipelines.run import frozen_config
from calibrail.report.documents import agree as words
from calibrail.report.messages import say, spell_reasons
from calibrail.scores import lexical
from calibrail.scores.registry import build_column, key_of
from calibrail.serialization import Record, plain


@dataclass(frozen=True, slots=True, repr=False)
class JudgedRates(Shown, Record):
    """Judges beside people, the verdicts about them, and the rates that both together give.

    Attributes
    ----------
    verdict : str or None
        The worst of the judges' verdicts; None where no limits were named.
    confidence : float
        Of all judges' verdicts together, of those of all segments, and of every interval.
    min_caught, max_false_alarms : float or None
        What was asked for.
    columns : mapping
        The columns of human labels, of judges, of segments and of drawing probabilities.
    flag : mapping or None
        What flags: ``guardrail``, or ``column``, ``higher`` and ``threshold``.
    data : mapping
        Source, digest and numbers of rows.
    judges : tuple of mapping
        One a judge: ``caught`` and ``false_alarms``, its shares of hallucinated and of faithful
        answers called hallucinated, whose exact intervals hold together; ``verdict``, ``reason``,
        ``needed`` and the ``certificate`` behind them, corrected for the number of judges;
        ``threshold`` of ratings, in their own numbers; ``counts``, ``agreement``, ``rates`` and
        ``random_sample``; ``errs``, by what its errors differ; ``among``, how many of these ``n``
        answers are hallucinated, from ``lower`` to ``upper``.
    by : tuple of mapping
        The same of every judge and ``segment``.
    errors : tuple of mapping
        Rows on which judge and people disagree: ``judge``, ``segment``, ``id``, ``human``,
        ``response``.
    warnings : tuple of str
        What weakens the result, in plain words.
    """

    schema = "calibrail.agreement/1"
    shown_as = "agree"

    verdict: str | None
    confidence: float
    min_caught: float | None
    max_false_alarms: float | None
    columns: Mapping[str, Any]
    flag: Mapping[str, Any] | None
    data: Mapping[str, Any]
    judges: tuple[dict[str, Any], ...]
    by: tuple[dict[str, Any], ...]
    errors: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...] = ()

    @property
    def n_quarantined(self) -> int:
        """Rows that could not be used."""
        return int(self.data["n_quarantined"])


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
    context: loading.Context | None = None,
    **how: Unpack[ReadKeywords],
) -> JudgedRates:
    """Say whether a judge may stand in for people, and estimate rates from both.

    Verdicts and intervals hold for independent answers, or groups, of which those with human labels
    are a random sample, and for judges and limits that these labels did not choose.

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
        Where the human labels are, by the ids of the source, if they are not in its label column. A
        folder of labels, here or as the source, says with which probabilities they were drawn.
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
        How to read the file; ``label_column`` holds the human labels: where it is left out
        ``human``, else what other commands take for labels. Its fields may stand by themselves.
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
    >>> caught = result.judges[0]["caught"]
    >>> result.verdict, caught["count"], round(caught["lower"], 3)
    ('certified', 100, 0.957)
    """
    level, reading = share(confidence, "confidence"), optional(reading, ReadOptions, "reading")
    judges = (judge_column,) if isinstance(judge_column, str) else tuple(judge_column)
    if not judges:
        raise InputError(say("refused.no_judge"))
    name, asked = spoken(source), source
    folder = next(filter(loading.is_label_folder, (labels, source)), None)
    of_folder, n_uneven = ([], 0) if folder is None else drawn_answers(Path(cast(str, folder)))
    if source is folder:
        # What people say of the answers drawn is joined by their ids.
        source, labels = [example for example, _ in of_folder], folder
    if labelled_by := next((item.judge for _, item in of_folder if item.judge), None):
        reading = replace(reading, labelled_by=labelled_by)
    source, ids = reusable(source), reading.id_column
    if labels is not None and folder is None:
        labels = reusable(labels)
        reading = loading.reading_by_ids(reading, source, labels)
    seen = loading.open_source(source, replace(reading, label_column=None), labelled=False)
    missing = [item for item in judges if item not in seen.fields]
    if missing and of_folder and labels is asked:
        raise InputError.on("no_judge_in_folder", judge=missing[0], folder=folder)
    others = [column for column in seen.fields if column not in judges]
    human, reading = loading.column_of_people(seen, reading, others, labels is None, apart=True)
    for column in judges:
        fields.column(column, "judge_column")
    named = (*judges, *((human,) if labels is None else ()))
    if repeated := [item for item, n in Counter(named).items() if n > 1]:
        raise InputError.on("column_named_twice", name=repeated[0])
    if n_looks and min_caught is None:
        raise InputError(say("refused.one_goal", nothing=True))
    limits = Requirement(max_false_alarms, min_caught, level, assume_independent, n_looks=n_looks)
    guardrail = None if guardrail is None else Guardrail.coerce(guardrail)
    if guardrail is not None:
        require_answers(guardrail.config, "agree")
    columns, described, decide = flagging(guardrail, scores)
    context = optional(context, loading.Context, "context")
    by_people, n_unsure, n_unread = cast("dict[str, Any] | None", None), 0, 0
    whose = cast("Labellers | None", None)
    if folder is not None:
        # A review shows what judges say, so that its labels test none of them.
        blind = [it.before_review() for _, it in of_folder]
        by_people = {it.draw.id: it.label for it in blind if it.label is not None}
        n_unsure = sum(it.standing == "final" for it in blind) - len(by_people)
        if not by_people:
            raise DataError(say("refused.nobody_labelled", folder=folder))
    elif labels is not None:
        by_people, found = loading.labels_by_id(labels, replace(reading, id_column=ids))
        n_unread, whose = found.n_quarantined, found.labellers
        reading = replace(reading, labelled_by=reading.labelled_by or judge_of(found.how()))
    generator = next(iter(aliases_of("generator", others)), None)
    keep = tuple(dict.fromkeys(filter(None, (*named, *columns, by, probability, generator))))
    unlabelled = replace(reading, label_column=None)
    examples = loading.open_source(source, unlabelled, keep=keep, labelled=False)
    whose = whose or examples.labellers
    fresh, drawn_with = Fresh(guardrail), {it.draw.id: it.draw.probability for _, it in of_folder}
    pairs = loading.JudgedLabels(name, reading, human, judges, judge_higher, examples, by_people)
    table_rows, flags, segments = list[tuple[float, ...]](), list[bool](), list[str]()
    chances, people, met = list[float](), dict[int, Example](), dict[str, Example]()
    times, places, units = Counter[str | None](), list[int | None](), list[str | None]()
    alone, keys = list[str | None](), list[str]()
    n_undefined, n_errors, said = 0, 0, dict[tuple[str, str], tuple[float, int]]()

    def readable() -> Iterator[tuple[Example, tuple[float, ...]]]:
        for item in examples:
            row, (file, place) = pairs.read(item), examples.place
            id = item.id.removeprefix(f"{file}:")
            if by_people and item.id not in by_people and id in by_people:
                # Another file has that id, too.
                raise DataError(say("refused.two_answers", name=name, id=id))
            if row and row[0] != NONE and item.response and by_people is None:
                label, first = said.setdefault((item.id, item.digest()), (row[0], place))
                if label != row[0]:
                    rows = first, place
                    raise DataError(say("refused.two_labels", name=name, id=item.id, rows=rows))
            if row:
                yield item, row

    for some in loading.batches(readable()):
        # Near copies are looked for many at a time.
        batch = [*compress(some, fresh.admits([example for example, _ in some]))]
        decided, undefined, errors = decide([example for example, _ in batch])
        n_undefined, n_errors = n_undefined + undefined, n_errors + errors
        flags += decided
        for example, row in batch:
            if row[0] != NONE:
                if by_people and met.setdefault(example.id, example) != example:
                    raise DataError(say("refused.two_answers", name=name, id=example.id))
                people[len(table_rows)] = example
            times[example.group] += 1
            places.append(None if example.group is None else times[example.group])
            # Without a group what is the same word for word is one.
            units.append(example.group or (example.digest() if example.response else None))
            alone.append(example.id if example.group is None else None)
            keys.append(example.digest() if example.response else example.id)
            table_rows.append(row)
            segments.append(group_name(None if by is None else example.columns.get(by)))
            if drawn_with:
                chances.append(drawn_with.get(example.id, 0.0))
            elif probability is not None:
                chances.append(loading.chance_of(name, example, probability))
        if context.progress is not None:
            context.progress(len(table_rows))
    pairs.append()
    table = np.array(table_rows, np.float64).reshape(len(table_rows), len(judges) + 1)
    pairs.call_two_ratings(table)
    pairs.require_labels(table, alone)
    n_unmet = len(by_people.keys() - {item.id for item in people.values()}) if by_people else 0
    drawn = evenly_labelled(people, chances) if chances else people
    # Within a segment labels may have been drawn alike of which too many are of all.
    counted = evenly_labelled(people, chances, segments) if chances and by else drawn
    if not drawn:
        least = min(chance for chance in chances if chance > 0.0)
        raise DataError(say("refused.no_label_stays", n=len(people), least=least))
    table[[row for row in people if row not in counted], 0] = NONE
    unit = group_numbers(None if assume_independent else units, len(units))
    if not assume_independent and examples.repeated_ids():
        # What shares an id, as answers to a question may, is a group unless it has one.
        unit = merge_groups(unit, group_numbers(alone, len(alone)))
    lots, drawing = np.zeros(len(unit)), list[dict[str, Any]]()
    if folder is None:
        # Where labels are handed out, one answer of each group is drawn, or all of fewer groups.
        # What the answers of a group say draws its lot, so that another name draws no other one.
        lowest = dict(sorted(zip(unit.tolist(), keys, strict=True), reverse=True))
        lots[[*counted]] = [Order(0).lot("group", lowest[int(unit[row])]) for row in counted]
    if chances and not drawn_with:
        drawing = judge_agreement.drawing_tests([*people], unit, np.array(chances))
    divided: dict[str, Sequence[Any]] = {
        "position": [places[row] for row in counted],
        "generator": [item.columns.get(generator or "") for item in counted.values()],
    }
    parts = np.array(flags, np.int64), np.array(segments, object)
    # Whether people's answers are a random sample of all that are here, one by one. Of what is set
    # aside since its label is none that counts, only rows with a label are known.
    singly = folder is None and len({*unit.tolist()}) == len(unit) and all(c > 0.0 for c in chances)
    singly &= not pairs.entries and SKIP not in (reading.label_map or {}).values()
    whole = np.array([row in drawn for row in range(len(table))], bool)
    rows = _Rows(table, *parts, unit, divided, drawing, lots, singly, whole)
    gate = _Gate(rows, counted, judges, pairs.signs, limits, looks, judge_of(examples.how()))
    about, found_by = gate.results(decided=described is not None, by=by is not None)
    turning = pairs.turning()
    about = tuple(row | {"turned": turning.get(row["judge"], ())} for row in about)
    verdicts = {row["verdict"] for row in about}
    result = JudgedRates(
        verdict=next((item for item in independence.WORSE_FIRST if item in verdicts), None),
        confidence=gate.limits.confidence,
        min_caught=min_caught,
        max_false_alarms=max_false_alarms,
        columns={"human": human, "judges": list(judges), "by": by, "probability": probability},
        flag=described,
        data={
            "source": spoken(asked),
            "sha256": examples.digest(),
            "n": len(table_rows),
            "n_human": len(drawn),
            "n_quarantined": len(pairs.entries) + examples.n_quarantined + n_unread,
            "n_unreadable": dict(pairs.unreadable),
            "n_seen_before": fresh.n_seen_before,
            "n_undefined": n_undefined,
            "n_errors": n_errors,
            "n_sharing_a_group": len(unit) - len(np.unique(unit)),
            "n_ids_repeated": (examples.repeated_ids() or {"n_ids": 0})["n_ids"],
            "n_set_aside": gate.n_set_aside,
            "n_calibrating": gate.n_calibrating,
            "n_thinned": len(people) - len(drawn) + n_uneven,
            "n_larger": gate.n_larger,
            "n_unmet": n_unmet,
            "n_unsure": n_unsure,
            "labelled_by": judge_of(examples.how()),
            "labellers": whose.found(),
            "part": examples.part(),
        },
        judges=about,
        by=found_by,
        errors=tuple(gate.errors()),
    )
    notes = [say("fixed_threshold.halved")] if gate.halved else []
    if folder is not None and read_plan(Path(cast(str, folder))).purpose == "certify":
        notes.append(say("agree.stopped"))
    return replace(result, warnings=(*words.warnings(result.to_dict()), *notes, *pairs.warnings()))


def judge_on_labels(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    labels: str | PathLike[str],
    judge: str,
    answers: Source | None = None,
    requirement: Requirement | None = None,
) -> JudgedRates:
    """Test another judge, or detector, on the labels of a folder, as `agree` does.

    ``calibrail recalibrate --new-judge``. It is a look at these labels, kept beside them.

    Parameters
    ----------
    guardrail : Guardrail, FrozenConfig or path
        What the judge is to keep, unless the requirement says it.
    labels : path
        Folder of labels.
    judge : str
        A column of labels or ratings, or a score as `calibrate` takes it.
    answers : path, str or sequence, optional
        Where the column is, by the ids of the answers, if not in the folder.
    requirement : Requirement, optional
        ``max_fpr`` and ``min_coverage``, together.

    Returns
    -------
    JudgedRates

    Raises
    ------
    InputError
        The judge is neither a column nor a score.
    DataError
        Nobody has labelled, or a file of the folder is damaged.
    """
    config, _ = frozen_config(guardrail)
    asked, then = fields.optional(requirement, Requirement, "requirement"), config.requirement
    max_fpr = then.max_fpr if asked.max_fpr is None else asked.max_fpr
    least = asked.min_coverage
    least = then.stated_coverage(config.promise) if least is None else least
    folder = fields.path(labels, "labels")
    source: Any = answers or folder
    examples = [example for example, _ in drawn_answers(folder)[0] if not answers]
    if rated := bool(examples) and not any(judge in item.columns for item in examples):
        with errors_as(InputError, InputError, "no_such_judge", judge=judge, folder=folder):
            (score,) = scoring.resolve_scores(judge)
        source = [
            replace(example, columns={**example.columns, judge: None if isnan(value) else value})
            for example, value in zip(examples, score.score(examples).values.tolist(), strict=True)
        ]
    return agree(
        source,
        judge_column=judge,
        judge_higher="hallucinated" if rated else None,
        labels=folder,
        # A limit that was named alone is refused as such.
        min_caught=asked.min_coverage if max_fpr is None else least,
        max_false_alarms=max_fpr,
        confidence=asked.confidence,
        n_looks=asked.n_looks,
        looks=data_reuse.looks_of(folder),
    )


#: A judge's place, and the segment; None for all rows.
_Key = tuple[int, str | None]


class _Rows(NamedTuple):
    """All rows: labels of people (`NONE`: none) and judges (NaN: none), flags, segments, groups.

    ``unit`` numbers groups in which copies are together, and ``lots`` are theirs. ``divided`` is by
    what else judges may err, a value of each row that people labelled, ``drawing`` tests whether
    as many rows are labelled as was stated, and ``singly`` says that each was drawn alone, of all.
    Labels of which too many were drawn of all count in their segment, and are not of the ``whole``.
    """

    table: NDArray[np.float64]
    flags: NDArray[np.int64]
    segments: NDArray[np.object_]
    unit: NDArray[np.int64]
    divided: Mapping[str, Sequence[Any]]
    drawing: Sequence[dict[str, Any]]
    lots: NDArray[np.float64]
    singly: bool
    whole: NDArray[np.bool_]


class _Gate:
    """Tests judges on the answers that people labelled, and counts all rows by their labels.

    Parameters
    ----------
    rows : _Rows
        All of them.
    people : mapping of int to Example
        The rows that people labelled, in order.
    judges, signs, limits, looks, labelled_by
        Columns, how ratings are turned (0 for labels), what is asked, and as in `agree`.
    """

    def __init__(
        self,
        rows: _Rows,
        people: Mapping[int, Example],
        judges: Sequence[str],
        signs: Sequence[float],
        limits: Requirement,
        looks: data_reuse.LooksFile,
        labelled_by: str | None,
    ) -> None:
        self._labelled_by, self._judges, self._signs = labelled_by, judges, signs
        self._data, self._table, self._segments = rows, rows.table, rows.segments
        table, self._each = rows.table, np.arange(len(rows.table))
        self._asked = limits.max_fpr is not None
        columns = [build_column(judge, higher="hallucinated") for judge in judges]
        self._examples, times = [], Counter(example.id for example in people.values())
        for row, item in people.items():
            if times[name := item.id] > 1:
                # What this row was told apart by must tell it apart below, too.
                item = replace(item, id=f"{name}#{row}", group=item.group or name)
            calls = (None if np.isnan(value) else float(value) for value in table[row, 1:])
            cells = {**item.columns, **dict(zip(judges, calls, strict=True))}
            self._examples.append(replace(item, label=int(table[row, 0]), columns=cells))
        self._scored = scored = scoring.score_source(
            self._examples,
            columns,
            splitting=SplitOptions(calibration_share=0.5) if any(signs) else None,
            # The strata of an audit: what texts show on their face.
            beside=lambda detectors, first: (
                *scoring.baselines_beside(detectors, first),
                *(lexical.QuestionLength(), lexical.ContextLength()),
            ),
            companions=False,
        )
        self._values = [scored.table.columns[key_of(column)] for column in columns]
        # In the order in which they came, whatever ids several of one id have got.
        self._rows = np.array([*people], np.int64)
        self._here = self._segments[self._rows]
        self._parts = np.unique(self._segments, return_inverse=True)[1]
        # A group counts once in all (1), and where it is in several segments once in each (0).
        among = table[:, 0] < NONE, (table[:, 0] < NONE) & rows.whole
        self._even = [
            judge_agreement.evenly_met(people, rows.unit, rows.lots, parts)[self._rows]
            for people, parts in zip(among, (self._parts, 0 * self._parts), strict=True)
        ]
        #: By judge, and whether in all: which answers test it where near copies count once.
        self._tests: dict[tuple[int, bool], NDArray[np.bool_]] = {}
        self._edges = [self._edge(k, limits) for k in range(len(judges))]
        calibrating = scored.codes == CALIBRATION
        self.n_calibrating = int(calibrating.sum())
        table[self._rows[calibrating], 0] = NONE
        silent = np.isnan(table) & (np.isnan(table) & (table[:, :1] < NONE)).any(axis=0)
        #: Labels that count in segments, and in all.
        self._labels = [table, table.copy()]
        self._labels[True][~rows.whole, 0] = NONE
        #: The same, where silence before answers that people labelled calls none of all so.
        self._heard = [np.where(silent, -np.inf, labels) for labels in self._labels]
        self._promise = asked_of(limits, undefined="flag")
        history = data_reuse.DataUseHistory(looks or None)
        asked: dict[str, Any] = {"threshold": self._edges, "asked": self._asked}
        # Other segments are other verdicts, and other answers that count are others.
        counted = [str(cell) for cell in zip(self._here, *self._even, strict=True)]
        parted = replace(scored, table=replace(scored.table, kept={"": counted}))
        about = parted, scored.keys, self._promise, limits
        look, self._standing = data_reuse.begin_report(history, *about, **asked)
        self._strict = self._standing.strict(limits) if self._asked else limits
        self.halved = self._asked and self._standing.halves
        self.limits = limits if self.halved else self._strict
        self.n_set_aside = self.n_larger = 0
        self._contents = self._decided()
        found = {self._contents[k, None]["verdict"] for k in range(len(judges))}
        worst = next(item for item in independence.WORSE_FIRST if item in found)
        history.conclude(data_reuse.SPLIT, look, worst)

    def _edge(self, k: int, limits: Requirement) -> float:
        """Return the threshold of a judge, of ratings the one that keeps the limits best."""
        if not self._signs[k]:
            return 1.0
        values, labels = self._values[k], self._scored.table.labels
        rows = (self._scored.codes == CALIBRATION) & ~np.isnan(values)
        asked = (limits.min_coverage or 0.0, limits.max_fpr or 0.0) if self._asked else None
        edge = judge_agreement.best_edge(values[rows], labels[rows], asked)
        if edge is None:
            raise DataError(say("refused.no_class_to_calibrate", judge=self._judges[k]))
        return edge

    def _counts(self, sample: Sample, k: int, *, whole: bool) -> dict[_Key, ClassCounts]:
        """Count what a judge calls hallucinated, in all or in segments; silence calls none."""
        counts, even = self._data.whole[self._rows], self._even[whole]
        rows = sample.drawn(TEST, sample.labels, counts if whole else self._parts[self._rows])
        if whole:
            self.n_set_aside = max(self.n_set_aside, sample.n_set_aside)
            self.n_larger = max(self.n_larger, int((rows & counts & ~even).sum()))
        rows = rows & even
        self._tests.setdefault((k, whole), rows)
        called, names = self._values[k] >= self._edges[k], sorted({*self._segments})
        parts = {None: rows} if whole else {name: rows & (self._here == name) for name in names}
        return {(k, name): sample.counts(called, among) for name, among in parts.items()}

    def _decided(self) -> dict[_Key, dict[str, Any]]:
        """Return the certificates of judges, and of judges in segments: a family each."""
        places, scored, data = range(len(self._judges)), self._scored, self._scored.data
        asked = self._strict if self._asked else replace(self._strict, min_coverage=0.5)
        made: list[dict[_Key, dict[str, Any]]] = [{} for _ in range(4)]
        hallucinated = scored.table.labels == 1
        wrong = [(self._values[k] >= self._edges[k]) != hallucinated for k in places]
        readings = independence.readings(scored, self._strict)
        for whole in (True, False):
            asking = self._promise, self._strict, None if whole else self._here.tolist()
            ways = [independence.independent(way, *asking)[0] for way in readings]
            for ends in (wrong, [~item for item in wrong]) if len(ways) > 1 else ():
                ways.append(tuple(independence.extreme(ways, ends[k])[k] for k in places))
            for kept, way in zip(made, ways, strict=False):
                counted = (self._counts(way[k], k, whole=whole) for k in places)
                found = certify_groups(cast(Any, dict(ChainMap(*counted))), asked)
                kept |= {cast(Any, key): it.certificate.to_dict() for key, it in found.items()}
        made, result = [kept for kept in made if kept], {}
        for key, content in made[0].items():
            if len(made) > 1:
                worse, left = independence.worse_of([it[key] for it in made], data["n_near_copies"])
                content = {**worse, **left}
            content = data_reuse.at_confidence(content, self.limits) if self.halved else content
            told: Any = {"assumed": self._strict.assume_independent, "judge": self._labelled_by}
            content = independence.settled(content, data["n_alike"], **told)
            if self._standing.earlier:
                content = data_reuse.certificate_after_reuse(content, self._standing)
            result[key] = content
        return result

    def _about(self, k: int, segment: str | None) -> dict[str, Any]:
        """Return what is known of a judge; no verdict where people drew by its labels."""
        here = np.full(len(self._table), True) if segment is None else self._segments == segment
        level, n = self.limits.confidence, len({*self._segments})
        n = n if segment is not None else 1 + bool(self._spread)
        whole = segment is None
        counts, weighed = self._counted(k, here, whole, each=True), self._counted(k, here, whole)
        tested = np.isin(self._each, self._rows[self._tests[k, whole]]) & here
        # Rows of one group are alike, and may have been drawn together: a lot chooses one of each.
        among_units = self._data.unit[here], self._labels[whole][here, 0] < NONE
        alone = np.flatnonzero(here)[judge_agreement.one_of_each(*among_units)]
        each, tail = self._counted(k, alone, whole), judge_agreement.SAMPLE_LEVEL / n
        drawing = [*self._data.drawing, *(self._spread if whole else ())]
        sample = [*judge_agreement.sample_tests(each, tail), *drawing]
        content = self._contents[k, segment]
        rates: dict[Any, Any] = {**judge_agreement.corrected_rates(weighed, level)}
        among = None
        if doubt := words.differing(sample):
            about = {"drawing": drawing, "data": {"labelled_by": self._labelled_by}}
            reason = say("agree.no_verdict", about, doubt=doubt)
            content = {**content, **withdrawn_for("no_sample", reason)}
            for rate in rates.values():
                if rate["prediction_powered"].estimate is not None:
                    rate["prediction_powered"] = missing("prediction-powered", "no_sample", level)
        elif self._data.singly and not self.n_calibrating:
            among = judge_agreement.hallucinated_among(weighed, level)
        shown = content if self._asked else {}
        region = content["region"]
        return {
            "judge": self._judges[k],
            **({} if segment is None else {"segment": segment}),
            **{name: shown.get(name) for name in ("verdict", "reason", "needed")},
            "caught": region["coverage"],
            "false_alarms": region["fpr"],
            "certificate": content,
            "counts": counts,
            "agreement": judge_agreement.agreement(
                self._counted(k, tested, whole, each=True), level
            ),
            "rates": rates,
            "among": among,
            "random_sample": sample,
        }

    def _counted(
        self, k: int, rows: NDArray[Any], whole: bool, *, each: bool = False
    ) -> LabelCounts:
        """Count rows by all labels, ``each`` as they are and else of each unit one."""
        unit, tables = (self._each, self._labels) if each else (self._data.unit, self._heard)
        table = tables[whole]
        values = table[rows, k + 1]
        called = np.where(np.isnan(values), NONE, values >= self._edges[k]).astype(np.int64)
        places = table[rows, 0].astype(np.int64), called, self._data.flags[rows]
        return LabelCounts.weighted(places, unit[rows], decided=self._flagged)

    def results(self, *, decided: bool, by: bool) -> tuple[Any, Any]:
        """Return what is known of every judge, and of every judge in every segment."""
        judges, parts, errs, self._flagged = [], [], self._errs(), decided
        drawn = self._labels[True][:, 0] < NONE, self._data.unit
        self._spread = judge_agreement.segment_test(self._segments, *drawn)
        for k, sign in enumerate(self._signs):
            row = self._about(k, None)
            row |= {"threshold": sign * self._edges[k] if sign else None, "errs": errs[k]}
            if by:
                names = sorted(set(self._segments))
                here = [self._about(k, name) for name in names]
                counts = [self._counted(k, self._segments == name, False) for name in names]
                level, rates = self.limits.confidence, row["rates"]["prevalence"]
                rates["stratified"] = missing("prediction-powered", "no_sample", level)
                if not any(words.differing(part["random_sample"]) for part in here):
                    rates["stratified"] = judge_agreement.stratified(counts, level)
                parts += here
            judges.append(row)
        return spell_reasons((tuple(plain(judges)), tuple(plain(parts))))

    def _errs(self) -> list[list[dict[str, Any]]]:
        """Return by which features, and by the segment, the errors of each judge differ."""
        table = self._scored.table
        divisions = [
            *(confounds.thirds(key, table.columns[key]) for key in self._scored.baselines),
            confounds.by_column("segment", self._here.tolist()),
            *(confounds.by_column(name, cells) for name, cells in self._data.divided.items()),
        ]
        found = []
        for k, judge in enumerate(self._judges):
            # Which answers each judge wrote itself, where its name says so.
            whose = [it and author_of(judge, it) for it in self._data.divided["generator"]]
            every, seen = (*divisions, confounds.by_column("author", whose)), self._tests[k, True]
            tests = (errors_by(it, self._errors(k), seen) for it in every if it is not None)
            found.append([test for test in tests if test is not None])
        adjusted = iter(holm([row["p_value"] for rows in found for row in rows]).tolist())
        return [[{**row, "p_holm": next(adjusted)} for row in rows] for rows in found]

    def _errors(self, k: int) -> NDArray[np.bool_]:
        wrong = (self._values[k] >= self._edges[k]) ^ (self._scored.table.labels == 1)
        return np.asarray(wrong & ~np.isnan(self._values[k]))

    def errors(self) -> Iterator[dict[str, Any]]:
        """Yield the tested answers on which a judge and people disagree, segment by segment."""
        for k, judge in enumerate(self._judges):
            rows = np.flatnonzero(self._errors(k) & (self._scored.codes == TEST)).tolist()
            for row in sorted(rows, key=lambda row: self._here[row]):
                example = self._examples[row]
                yield {
                    "judge": judge,
                    "segment": str(self._here[row]),
                    "id": example.id,
                    "human": int(self._scored.table.labels[row]),
                    "response": example.response,
                }
