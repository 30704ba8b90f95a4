"""Agree()."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from os import PathLike
from typing import Any, Final, Unpack

import numpy as np

from calibrail.data.example import Example, shorten
from calibrail.data.labels import LabelReader, TieError, another_column, label_key, label_remedy
from calibrail.data.reading import Reading
from calibrail.data.sources import Source, spoken
from calibrail.data.values import parse_cell, value_at
from calibrail.errors import DataError, InputError, file_errors
from calibrail.evaluation import judge_agreement
from calibrail.evaluation.judge_agreement import NONE, Agreement, LabelCounts, Rate, RateName
from calibrail.formatting import Shown
from calibrail.guardrail.runtime import Guardrail, require_answers
from calibrail.options import ReadOptions, ScoreThreshold, fields
from calibrail.options.data import SKIP, ReadKeywords
from calibrail.options.fields import optional, share
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines.calibration_overlap import Fresh
from calibrail.pipelines.loading import Context, batches, open_source, source_name
from calibrail.report.documents import agree as words
from calibrail.report.messages import say
from calibrail.scores.registry import build_column

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


class _LabelPairs:
    """Reads two labels of each row; sets rows aside whose label is neither 0, 1 nor blank."""

    def __init__(self, source: str, reading: ReadOptions, human: str, judge: str, rows: Reading):
        self._source, self._reading = source, reading
        people, first = ([value_at(row, column) for row in rows.head] for column in (human, judge))
        # A value of the judge's alone says nothing of the words of people.
        named = {label_key(value) for value in first} - {label_key(value) for value in people}
        for_judge = reading.positive is not None and label_key(reading.positive) in named
        self._readers = [
            LabelReader(reading, column, names=rows.class_names.get(column, ()), beside=beside)
            for column, beside in ((human, people if for_judge else None), (judge, first))
        ]
        #: Rows that were set aside.
        self.entries: list[str] = []
        self.first: str | None = None

    def warnings(self) -> Iterator[str]:
        """Yield that options which say what labels mean were not used for a column."""
        for reader in (item for item in self._readers if item.is_explicit and item.n_own):
            yield say("agree.read_by_itself", column=repr(reader.column))

    def read(self, example: Example) -> tuple[int, int] | None:
        """Return both labels as places in the counts; None where one cannot be read."""
        readers = self._readers
        human, judge = (_label(example.columns.get(item.column), item) for item in readers)
        if human is None or judge is None:
            self._set_aside(example, readers[human is not None])
            return None
        return human, judge

    def _set_aside(self, example: Example, reader: LabelReader) -> None:
        column = reader.column
        value = example.columns[column]
        # The reader numbers rows without an id of their own.
        number = example.id.removeprefix("row-")
        row = int(number) if number.isdecimal() and number != example.id else None
        where = f"id {example.id!r}" if row is None else f"row {row}"
        remedy = label_remedy(value, reader).removesuffix(another_column())
        problem = (
            f"{self._source}, {where}, field {column}: not 0 or 1, got {shorten(value)}. "
            f"{remedy[0].upper()}{remedy[1:]}; leave the cell empty where there is no label"
        )
        if self._reading.strict:
            raise DataError(problem)
        self.first = self.first or problem
        entry = {"row": row, "id": example.id, "field": column, "reason": "not 0 or 1"}
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


SCHEMA: Final = "calibrail.agreement/1"


@dataclass(frozen=True, slots=True, repr=False)
class JudgedRates(Shown):
    """A judge beside people, and the rates that both together give.

    Attributes
    ----------
    counts : LabelCounts
        Rows by human label, judge label and flag.
    agreement : Agreement
        How far the judge agrees with people.
    rates : mapping of str to Rate
        ``prevalence``, and where something flags answers ``coverage`` and ``fpr``, four ways each.
    trust : mapping of str to Trust
        Which of the four to rely on, and why.
    sample : tuple of ShareTest
        Whether the rows with a human label look like a random sample.
    alike : tuple of ShareTest
        Whether the judge errs alike on flagged and on other answers.
    confidence : float
        Level of every interval.
    columns : mapping of str to str
        The columns of human and judge labels.
    flag : mapping or None
        What flags: ``guardrail``, or ``column``, ``higher`` and ``threshold``.
    data : mapping
        Source, digest and numbers of rows, JSON-able.
    warnings : tuple of str
        What weakens the result, in plain words.
    """

    shown_as = "agree"

    counts: LabelCounts
    agreement: Agreement
    rates: Mapping[RateName, Rate]
    trust: Mapping[RateName, judge_agreement.ReliableEstimates]
    sample: tuple[judge_agreement.ShareTest, ...]
    alike: tuple[judge_agreement.ShareTest, ...]
    confidence: float
    columns: Mapping[str, str]
    flag: Mapping[str, Any] | None
    data: Mapping[str, Any]
    warnings: tuple[str, ...]

    @property
    def n_quarantined(self) -> int:
        """Rows that could not be used."""
        return int(self.data["n_quarantined"])

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail agree --json`` prints."""
        agreement = self.agreement.to_dict()
        for name in ("agreement", "sensitivity", "specificity"):
            agreement[name]["reason"] = None if agreement[name]["n"] else words.code_message(name)
        return {
            "schema": SCHEMA,
            "confidence": self.confidence,
            "columns": dict(self.columns),
            "flag": None if self.flag is None else dict(self.flag),
            "data": {**self.data, **self.counts.to_dict()},
            "agreement": agreement,
            "rates": {
                name: {**rate.to_dict(), "trust": self.trust[name].to_dict()}
                for name, rate in self.rates.items()
            },
            "random_sample": [test.to_dict() for test in self.sample],
            "errs_alike": [test.to_dict() for test in self.alike],
            "warnings": list(self.warnings),
        }


@options_from_keywords(reading=ReadOptions)
def agree(
    source: Source,
    *,
    human: str,
    judge: str,
    guardrail: Guardrail | str | PathLike[str] | None = None,
    scores: ScoreThreshold | None = None,
    confidence: float = 0.95,
    reading: ReadOptions | None = None,
    context: Context | None = None,
    **how: Unpack[ReadKeywords],
) -> JudgedRates:
    """Compare a judge with people, and estimate rates from both, in one streaming pass.

    Only counts are kept. Rows take no part where a label is neither 0, 1 nor blank; they go to the
    quarantine file. Rows without a judge label serve the estimate from human labels alone.

    Parameters
    ----------
    source : path, str or iterable of Example
        Answers with a column of judge labels (most rows) and one of human labels (a few rows,
        blank elsewhere); of examples in memory, ``Example.columns`` holds them.
    human, judge : str
        The columns: 1 = hallucinated, 0 = faithful, blank = no label.
    guardrail : Guardrail, optional
        Flags every answer that it does not pass. Hallucinated answers that set its threshold are
        left out.
    scores : ScoreThreshold, optional
        A column of scores that flags, in the guardrail's place, and answers without a score.
    confidence : float
        Level of every interval.
    reading : ReadOptions, optional
        How to read the file; its label column is not used. Its fields may stand by themselves.
    context : Context, optional
        Who is told of the number of rows so far.

    Returns
    -------
    JudgedRates

    Raises
    ------
    InputError
        If the columns are the same, or what flags is named twice.
    DataError
        If no row has a human label, or none a judge label; with ``strict`` at the first label that
        cannot be read.

    Examples
    --------
    >>> from calibrail import Example
    >>> labels = [("1", "1"), ("0", "0"), (None, "1"), (None, "0")]
    >>> rows = [Example(id=str(i), columns={"human": human, "judge": judge})
    ...         for i, (human, judge) in enumerate(labels)]
    >>> result = agree(rows, human="human", judge="judge")
    >>> result.counts.n_both, result.rates["prevalence"].judge_only.measure.estimate
    (2, 0.5)
    """
    level = share(confidence, "confidence")
    for name, value in (("human", human), ("judge", judge)):
        fields.column(value if value is not None else "", name)
    if human == judge:
        raise InputError(f"human and judge must be two columns; got {human!r} twice")
    guardrail = None if guardrail is None else Guardrail.coerce(guardrail)
    if guardrail is not None:
        require_answers(guardrail.config, "agree")
    columns, described, decide = _flagging(guardrail, scores)
    reading = optional(reading, ReadOptions, "reading")
    context = optional(context, Context, "context")
    examples = open_source(source, reading, keep=(human, judge, *columns), labelled=False)
    name = spoken(source)
    fresh, pairs, cells = (
        Fresh(guardrail),
        _LabelPairs(name, reading, human, judge, examples),
        np.zeros((3, 3, 2), np.int64),
    )
    groups, n, n_sharing, n_undefined, n_errors = set[str](), 0, 0, 0, 0
    readable = ((item, labels) for item in examples if (labels := pairs.read(item)) is not None)
    for rows in batches(readable):
        # Near copies are looked for many at a time.
        batch = [*compress(rows, fresh.admits([example for example, _ in rows]))]
        flags, undefined, errors = decide([example for example, _ in batch])
        n, n_undefined, n_errors = n + len(batch), n_undefined + undefined, n_errors + errors
        for (example, labels), flag in zip(batch, flags, strict=True):
            cells[(*labels, int(flag))] += 1
            if labels[0] != NONE and example.group is not None:
                n_sharing += example.group in groups
                groups.add(example.group)
        if context.progress is not None:
            context.progress(n)
    pairs.append()
    counts = LabelCounts(cells, described is not None)
    for column, role, found in ((human, "human", counts.n_human), (judge, "judge", counts.n_judge)):
        if not found:
            raise DataError(words.no_label(name, column, role, len(pairs.entries), pairs.first))
    sample = judge_agreement.sample_tests(counts)
    random = not (fresh.n_seen_before or any(test.differs for test in sample))
    corrected = judge_agreement.corrected_rates(counts, level)
    rates = {key: _in_words(key, rate) for key, rate in corrected.items()}
    result = JudgedRates(
        counts=counts,
        agreement=_agreement(counts, level),
        rates=rates,
        trust=judge_agreement.trusted(rates, random=random),
        sample=_tests(sample),
        alike=_tests(judge_agreement.alike_tests(counts)),
        confidence=level,
        columns={"human": human, "judge": judge},
        flag=described,
        data={
            "source": source_name(source),
            "sha256": examples.digest(),
            "n_unlabelled": int(cells[NONE, NONE].sum()),
            "n_quarantined": len(pairs.entries) + examples.n_quarantined,
            "n_seen_before": fresh.n_seen_before,
            "n_undefined": n_undefined,
            "n_errors": n_errors,
            "n_sharing_a_group": n_sharing,
            "part": examples.part(),
        },
        warnings=(),
    )
    content = result.to_dict()
    doubt = words.doubt(content)
    trust = {
        key: replace(item, reason=words.trust(item.reason, content["rates"][key], doubt))
        for key, item in result.trust.items()
    }
    return replace(result, trust=trust, warnings=(*words.warnings(content), *pairs.warnings()))


def _in_words(name: RateName, rate: Rate) -> Rate:
    """Return the estimates with sentences in place of codes."""
    return Rate(
        *(
            replace(
                item,
                measure=replace(item.measure, reason=words.reason(name, item)),
                assumption=words.assumption(name, method),
                promise=say(f"agree.promise_{method}"),
            )
            for method, item in rate
        )
    )


def _agreement(counts: LabelCounts, level: float) -> Agreement:
    """Return the agreement with sentences in place of codes."""
    result = judge_agreement.agreement(counts, level)
    kappa = replace(result.kappa, reason=words.code_message(result.kappa.reason))
    asymmetry = replace(result.asymmetry, reason=words.code_message(result.asymmetry.reason))
    return replace(result, kappa=kappa, asymmetry=asymmetry)


def _tests(tests: tuple[judge_agreement.ShareTest, ...]) -> tuple[judge_agreement.ShareTest, ...]:
    """Return tests with words in place of codes."""
    return tuple(
        replace(test, share=say(f"agree.{test.share}"), reason=words.code_message(test.reason))
        for test in tests
    )
