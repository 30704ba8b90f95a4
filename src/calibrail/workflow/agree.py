"""How good is a guardrail, or the data, when most labels come from a judge and few from people?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calibrail.errors import DataError, InputError
from calibrail.evaluation.agree.corrected_rates import (
    Rate,
    RateName,
    Trust,
    corrected_rates,
    trusted,
)
from calibrail.evaluation.agree.judge_labels import (
    NONE,
    LabelCounts,
    ShareTest,
    alike_tests,
    sample_tests,
)
from calibrail.evaluation.agree.judge_vs_human import Agreement, agreement
from calibrail.evaluation.stats.measure import checked_confidence
from calibrail.evaluation.stats.phrases import count, percent
from calibrail.guardrail.runtime import Guardrail
from calibrail.settings import ReadOptions
from calibrail.workflow.context import Progress
from calibrail.workflow.judged_rows import (
    ByColumn,
    Flagging,
    Tally,
    Unreadable,
    batches,
    choose_flagging,
)
from calibrail.workflow.sources import Source, open_source

SCHEMA: Final = "calibrail.agreement/1"


@dataclass(frozen=True, slots=True)
class JudgedRates:
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

    counts: LabelCounts
    agreement: Agreement
    rates: Mapping[RateName, Rate]
    trust: Mapping[RateName, Trust]
    sample: tuple[ShareTest, ...]
    alike: tuple[ShareTest, ...]
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
        return {
            "schema": SCHEMA,
            "confidence": self.confidence,
            "columns": dict(self.columns),
            "flag": None if self.flag is None else dict(self.flag),
            "data": {**self.data, **self.counts.to_dict()},
            "agreement": self.agreement.to_dict(),
            "rates": {
                name: {**rate.to_dict(), "trust": self.trust[name].to_dict()}
                for name, rate in self.rates.items()
            },
            "random_sample": [test.to_dict() for test in self.sample],
            "errs_alike": [test.to_dict() for test in self.alike],
            "warnings": list(self.warnings),
        }


def agree(
    source: Source,
    *,
    human: str,
    judge: str,
    guardrail: Guardrail | None = None,
    score_column: str | None = None,
    higher: str | None = None,
    threshold: float | None = None,
    confidence: float = 0.95,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
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
    score_column : str, optional
        A column of scores that flags, in the guardrail's place.
    higher : {"hallucinated", "faithful"}
        What a higher score means.
    threshold : float
        Flags scores at or above it, or at or below it where a higher score means faithful, and
        answers without a score.
    confidence : float
        Level of every interval.
    reading : ReadOptions, optional
        How to read the file; its label column is not used.
    progress : callable, optional
        Called with the number of rows so far.

    Returns
    -------
    JudgedRates

    Raises
    ------
    InputError
        If the columns are the same, or what flags is named twice or in part.
    DataError
        If no row has a human label, or none a judge label; with ``strict`` at the first label that
        cannot be read.

    Examples
    --------
    >>> from calibrail import Example
    >>> labels = [("1", "1"), ("0", "0"), (None, "1"), (None, "0")]
    >>> rows = [Example(id=str(i), columns={"human": human, "judge": judge})
    ...         for i, (human, judge) in enumerate(labels)]
    >>> found = agree(rows, human="human", judge="judge")
    >>> found.counts.n_both, found.rates["prevalence"].judge_only.measure.estimate
    (2, 0.5)
    """
    level = checked_confidence(confidence)
    if human == judge:
        raise InputError(f"human and judge must be two columns; got {human!r} twice")
    flagging = choose_flagging(guardrail, score_column, higher, threshold)
    reading = reading or ReadOptions()
    keep = tuple(dict.fromkeys((human, judge, *flagging.columns)))
    examples, opened = open_source(source, reading, require=(), keep=keep, labelled=False)
    name = str(source) if isinstance(source, str | Path) else "the examples"
    seen = set() if guardrail is None else set(guardrail.config.data.calibration_examples)
    tally = Tally()
    with Unreadable(name, reading) as unreadable:
        for batch in batches(unreadable.readable(examples, human, judge)):
            fresh = [item for item in batch if not seen or item[0].digest() not in seen]
            tally.n_seen_before += len(batch) - len(fresh)
            flags = flagging.flags([example for example, _ in fresh])
            for (example, labels), flag in zip(fresh, flags, strict=True):
                tally.add(example, labels, flag)
            if progress is not None:
                progress(tally.n)
        unreadable.append()
    counts = LabelCounts(tally.cells, flagging.decides)
    for column, role, n in ((human, "human", counts.n_human), (judge, "judge", counts.n_judge)):
        if not n:
            raise DataError(_no_label(name, column, role, unreadable))
    sample, alike = sample_tests(counts), alike_tests(counts)
    rates = corrected_rates(counts, level)
    return JudgedRates(
        counts=counts,
        agreement=agreement(counts, level),
        rates=rates,
        trust=trusted(rates, _doubt(tally, sample)),
        sample=sample,
        alike=alike,
        confidence=level,
        columns={"human": human, "judge": judge},
        flag=flagging.described,
        data={
            "source": name if isinstance(source, str | Path) else "examples in memory",
            "sha256": opened.digest() if opened is not None else None,
            "n_unlabelled": int(tally.cells[NONE, NONE].sum()),
            "n_quarantined": unreadable.n + (opened.n_quarantined if opened is not None else 0),
            "n_seen_before": tally.n_seen_before,
            "n_undefined": flagging.n_undefined,
            "n_errors": flagging.n_errors,
            "n_sharing_a_group": tally.n_sharing,
        },
        warnings=tuple(_warnings(counts, tally, flagging, sample, alike)),
    )


def _no_label(name: str, column: str, role: str, unreadable: Unreadable) -> str:
    if unreadable.first is not None:
        return (
            f"no usable row has a {role} label in the column {column!r}; "
            f"{count(unreadable.n, 'row')} could not be used, the first: {unreadable.first}"
        )
    return (
        f"{name} has no {role} label: the column {column!r} is blank in every row that can be "
        "used; write 1 for hallucinated and 0 for faithful"
    )


def _doubt(tally: Tally, sample: Iterable[ShareTest]) -> str | None:
    """Say why the rows with human labels are no random sample, if it shows."""
    if tally.n_seen_before:
        return "answers that set the guardrail's threshold had to be left out; use fresh ones"
    differing = [_differing(test) for test in sample if test.differs]
    return f"{' and '.join(differing)}; label rows drawn at random" if differing else None


def _differing(test: ShareTest) -> str:
    first, second = test.first_count / test.first_n, test.second_count / test.second_n
    return (
        f"{percent(first)} of them are {test.share}, of the rest {percent(second)} "
        f"(Fisher's exact test, p = {test.p_value:.2g})"
    )


def _warnings(
    counts: LabelCounts,
    tally: Tally,
    flagging: Flagging,
    sample: Iterable[ShareTest],
    alike: Iterable[ShareTest],
) -> Iterator[str]:
    for test in sample:
        if test.differs:
            yield (
                "rows with a human label are not like the others: "
                f"{_differing(test)}; estimates from them do not hold for the file"
            )
    for test in alike:
        if test.differs:
            yield (
                f"the judge errs differently on flagged answers: {test.share}, "
                f"{percent(test.first_count / test.first_n)} of the flagged and "
                f"{percent(test.second_count / test.second_n)} of the others (p = "
                f"{test.p_value:.2g}); Rogan-Gladen assumes that they are alike"
            )
    if tally.n_seen_before:
        yield (
            f"{count(tally.n_seen_before, 'hallucinated answer')} set the guardrail's threshold "
            "and were left out, so the share of hallucinated answers is not that of the file; use "
            "answers that the calibration has not seen"
        )
    if tally.n_sharing:
        yield (
            f"{tally.n_sharing:,} of {count(counts.n_human, 'row')} with a human label share a "
            "group (a question, a source) with another one; every interval takes rows as "
            "independent, so all are somewhat too narrow"
        )
    if alone := counts.n_human - counts.n_both:
        yield (
            f"{count(alone, 'row')} with a human label and no judge label: used by the human "
            "labels alone, and left out of the comparison and the corrections"
        )
    if flagging.n_errors:
        yield f"the detector failed on {count(flagging.n_errors, 'answer')}: counted as flagged"
    if flagging.n_undefined:
        by_column = isinstance(flagging, ByColumn)
        what = "counted as flagged" if by_column else "the guardrail's policy decided"
        yield f"{count(flagging.n_undefined, 'answer')} without a score: {what}"
