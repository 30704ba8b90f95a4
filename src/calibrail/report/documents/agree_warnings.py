"""What weakens a comparison of a judge with people, in words?"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from calibrail.evaluation.agree.judge_labels import LabelCounts, ShareTest
from calibrail.phrases import count, percent


def no_label(name: str, column: str, role: str, n_unreadable: int, first: str | None) -> str:
    """Say that a column of labels is empty, and what stands in its way."""
    if first is not None:
        return (
            f"no usable row has a {role} label in the column {column!r}; "
            f"{count(n_unreadable, 'row')} could not be used, the first: {first}"
        )
    return (
        f"{name} has no {role} label: the column {column!r} is blank in every row that can be "
        "used; write 1 for hallucinated and 0 for faithful"
    )


def doubt(n_seen_before: int, sample: Iterable[ShareTest]) -> str | None:
    """Say why the rows with human labels are no random sample, if it shows."""
    if n_seen_before:
        return "answers that set the guardrail's threshold had to be left out; use fresh ones"
    differing = [_differing(test) for test in sample if test.differs]
    return f"{' and '.join(differing)}; label rows drawn at random" if differing else None


def _differing(test: ShareTest) -> str:
    first, second = test.first_count / test.first_n, test.second_count / test.second_n
    return (
        f"{percent(first)} of them are {test.share}, of the rest {percent(second)} "
        f"(Fisher's exact test, p = {test.p_value:.2g})"
    )


def warnings(
    counts: LabelCounts,
    data: Mapping[str, Any],
    sample: Iterable[ShareTest],
    alike: Iterable[ShareTest],
    *,
    by_column: bool,
) -> Iterator[str]:
    """Say what weakens the result."""
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
    if data["n_seen_before"]:
        yield (
            f"{count(data['n_seen_before'], 'hallucinated answer')} set the guardrail's threshold "
            "and were left out, so the share of hallucinated answers is not that of the file; use "
            "answers that the calibration has not seen"
        )
    if data["n_sharing_a_group"]:
        yield (
            f"{data['n_sharing_a_group']:,} of {count(counts.n_human, 'row')} with a human label "
            "share a group (a question, a source) with another one; every interval takes rows as "
            "independent, so all are somewhat too narrow"
        )
    if alone := counts.n_human - counts.n_both:
        yield (
            f"{count(alone, 'row')} with a human label and no judge label: used by the human "
            "labels alone, and left out of the comparison and the corrections"
        )
    if data["n_errors"]:
        yield f"the detector failed on {count(data['n_errors'], 'answer')}: counted as flagged"
    if data["n_undefined"]:
        what = "counted as flagged" if by_column else "the guardrail's policy decided"
        yield f"{count(data['n_undefined'], 'answer')} without a score: {what}"
