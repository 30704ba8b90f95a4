"""How good is a guardrail, or the data, when most labels come from a judge and few from people?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Final

from calibrail.data.sources import Source, spoken
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
from calibrail.guardrail.runtime import Guardrail
from calibrail.guardrail.units import require_answers
from calibrail.report.documents import agree_words as words
from calibrail.settings import ReadOptions, ScoreThreshold, checks
from calibrail.settings.checks import optional, share
from calibrail.shown import Shown
from calibrail.workflow.context import Context
from calibrail.workflow.freshness import Fresh
from calibrail.workflow.judged_rows import Tally, Unreadable, choose_flagging
from calibrail.workflow.sources import batches, open_source, source_name

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
        agreement = self.agreement.to_dict()
        for name in ("agreement", "sensitivity", "specificity"):
            agreement[name]["reason"] = None if agreement[name]["n"] else words.WORDS[name]
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
        How to read the file; its label column is not used.
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
        checks.column(value if value is not None else "", name)
    if human == judge:
        raise InputError(f"human and judge must be two columns; got {human!r} twice")
    guardrail = None if guardrail is None else Guardrail.of(guardrail)
    if guardrail is not None:
        require_answers(guardrail.config, "agree")
    flagging = choose_flagging(guardrail, scores)
    reading, context = (
        optional(reading, ReadOptions, "reading"),
        optional(context, Context, "context"),
    )
    keep = (human, judge, *flagging.columns)
    examples = open_source(source, reading, keep=keep, labelled=False)
    name = spoken(source)
    fresh, tally = Fresh(guardrail), Tally()
    with Unreadable(name, reading) as unreadable:
        rows = unreadable.readable(examples, human, judge)
        for batch in batches(row for row in rows if fresh.admits(row[0])):
            tally.add(batch, flagging)
            if context.progress is not None:
                context.progress(tally.n)
        unreadable.append()
    counts = LabelCounts(tally.cells, flagging.described is not None)
    for column, role, n in ((human, "human", counts.n_human), (judge, "judge", counts.n_judge)):
        if not n:
            raise DataError(words.no_label(name, column, role, unreadable.n, unreadable.first))
    sample = sample_tests(counts)
    random = not (fresh.n_seen_before or any(test.differs for test in sample))
    rates = {key: _in_words(key, rate) for key, rate in corrected_rates(counts, level).items()}
    result = JudgedRates(
        counts=counts,
        agreement=_agreement(counts, level),
        rates=rates,
        trust=trusted(rates, random=random),
        sample=_tests(sample),
        alike=_tests(alike_tests(counts)),
        confidence=level,
        columns={"human": human, "judge": judge},
        flag=flagging.described,
        data={
            "source": source_name(source),
            "sha256": examples.digest(),
            "n_unlabelled": int(tally.cells[NONE, NONE].sum()),
            "n_quarantined": unreadable.n + examples.n_quarantined,
            "n_seen_before": fresh.n_seen_before,
            "n_undefined": tally.n_undefined,
            "n_errors": tally.n_errors,
            "n_sharing_a_group": tally.n_sharing,
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
    return replace(result, trust=trust, warnings=tuple(words.warnings(content)))


def _in_words(name: RateName, rate: Rate) -> Rate:
    """Return the estimates with sentences in place of codes."""
    return Rate(
        *(
            replace(
                item,
                measure=replace(item.measure, reason=words.reason(name, item)),
                assumption=words.assumption(name, method),
                promise=words.PROMISES[method],
            )
            for method, item in rate
        )
    )


def _agreement(counts: LabelCounts, level: float) -> Agreement:
    """Return the agreement with sentences in place of codes."""
    result = agreement(counts, level)
    kappa = replace(result.kappa, reason=words.say(result.kappa.reason))
    asymmetry = replace(result.asymmetry, reason=words.say(result.asymmetry.reason))
    return replace(result, kappa=kappa, asymmetry=asymmetry)


def _tests(tests: tuple[ShareTest, ...]) -> tuple[ShareTest, ...]:
    """Return tests with words in place of codes."""
    return tuple(
        replace(test, share=words.WORDS[test.share], reason=words.say(test.reason))
        for test in tests
    )
