"""What do the codes of a comparison of a judge with people say, and what weakens it?"""

from collections.abc import Iterable, Iterator
from typing import Final

from calibrail.evaluation.agree.corrections import RateEstimate
from calibrail.phrases import count, percent
from calibrail.report.blocks import Json

#: What each method takes for granted.
_ASSUMPTIONS: Final = {
    "judge_only": "the judge never errs",
    "human_only": "the answers with a human label are a random sample",
    "rogan_gladen": "the judge errs alike on flagged and on other answers of a class, and on the "
    "answers with a human label as on the rest",
    "prediction_powered": "the answers with a human label are a random sample",
}

#: What each interval promises, its assumption granted.
PROMISES: Final = {
    "judge_only": "exact for the judge's labels; nothing about its errors",
    "human_only": "exact at any number of labels",
    "rogan_gladen": "made of exact bounds; held with few labels, too, in simulation, not by proof",
    "prediction_powered": "made of exact bounds; held with few labels, too, in simulation, not by "
    "proof",
}

#: Why a rate has no estimate; ``name`` is the class that it is about.
_REASONS: Final = {
    "no_judge_label": "no row has a judge label",
    "no_human_label": "no row has a human label",
    "judge_calls_none": "the judge calls no answer {name}",
    "people_call_none": "people call no answer {name}",
    "class_not_judged": "people call no answer {name} that the judge has labelled, too",
    "uninformative": "sensitivity + specificity - 1 is {gain:.2f}, not above 0: the "
    "correction divides by it",
    "class_near_zero": "the corrected share of {name} answers is not above 0, and the rate "
    "is a share of it",
    "outside": "the corrected value is {share:.2f} and its whole interval lies outside [0, 1]: the "
    "assumption does not hold",
    "two_needed": "fewer than two rows have both labels",
    "class_not_labelled": "no row with both labels is {name}",
    "denominator_near_zero": "the share that the rate divides by is not above 0",
}

#: Why agreement, or a test of two shares, is missing; which share is compared.
WORDS: Final = {
    "agreement": "no answer has both labels",
    "sensitivity": "people call none of the doubly labelled answers hallucinated",
    "specificity": "people call none of the doubly labelled answers faithful",
    "no_row": "no answer has both labels",
    "one_label": "judge and people give every answer the same label",
    "no_disagreement": "judge and people never disagree",
    "called": "called hallucinated by the judge",
    "called_of_hallucinated": "called hallucinated by the judge, of answers that people call "
    "hallucinated",
    "called_of_faithful": "called hallucinated by the judge, of answers that people call faithful",
    "flagged": "flagged",
    "no_human_labelled": "no row is human-labelled",
    "no_others": "no row has a judge label alone",
    "no_flagged": "no row is flagged",
    "no_passed": "no row is passed",
}


def say(code: str | None) -> str | None:
    """Return what a code without numbers says."""
    return None if code is None else WORDS[code]


def assumption(rate: str, method: str) -> str:
    """Return what a method takes for granted of a rate."""
    if (rate, method) == ("prevalence", "rogan_gladen"):
        # Flags have no part in it.
        return "the judge errs on the answers with a human label as on the rest"
    return _ASSUMPTIONS[method]


def _class(rate: str, label: int) -> str:
    """Return what a label stands for; the FPR is about faithful answers."""
    return "hallucinated" if label == (rate != "fpr") else "faithful"


def reason(rate: str, estimate: RateEstimate) -> str | None:
    """Say why a rate has no estimate, where it has none."""
    code, values = estimate.measure.reason, estimate.values
    if code is None:
        return None
    return _REASONS[code].format(name=_class(rate, values.get("label", 1)), **values)


def trust(code: str, rate: Json, doubt: str) -> str:
    """Say why one of the four estimates of a rate is to be relied on, or none."""
    human, tuned = rate["human_only"], rate["prediction_powered"]
    if code == "narrower":
        gained = 1.0 - (tuned["upper"] - tuned["lower"]) / (human["upper"] - human["lower"])
        return (
            "like the human labels alone it needs no more than a random sample; its interval "
            f"is {percent(gained)} narrower than the exact one"
        )
    return {
        "no_sample": f"the human labels are no random sample: {doubt}",
        "no_label": str(human["reason"]),
        "no_correction": f"exact; no correction: {tuned['reason']}",
        "all_labelled": "exact, and people have labelled every row that the judge has, so there is "
        "nothing to correct",
        "no_weight": "exact, and the judge's labels say nothing about the rows that people have "
        "not labelled",
        "not_narrower": "exact, and the judge's labels do not make it narrower",
    }[code]


def doubt(result: Json) -> str:
    """Say why the rows with human labels are no random sample, if it shows."""
    if result["data"]["n_seen_before"]:
        return "answers that set the guardrail's threshold had to be left out; use fresh ones"
    differing = " and ".join(_differing(result["random_sample"]))
    return f"{differing}; label rows drawn at random" if differing else ""


def _differing(tests: Iterable[Json]) -> Iterator[str]:
    for test in tests:
        if test["differs"]:
            yield (
                f"{_share(test['human_labelled'])} of them are {test['share']}, of the rest "
                f"{_share(test['others'])} (Fisher's exact test, p = {test['p_value']:.2g})"
            )


def _share(rows: Json) -> str:
    return percent(rows["count"] / rows["n"])


def warnings(result: Json) -> Iterator[str]:
    """Say what weakens the result.

    Parameters
    ----------
    result : mapping
        What ``calibrail agree --json`` prints.
    """
    data = result["data"]
    for difference in _differing(result["random_sample"]):
        yield (
            f"rows with a human label are not like the others: {difference}; estimates from them "
            "do not hold for the file"
        )
    for test in result["errs_alike"]:
        if test["differs"]:
            yield (
                f"the judge errs differently on flagged answers: {test['share']}, "
                f"{_share(test['flagged'])} of the flagged and {_share(test['passed'])} of the "
                f"others (p = {test['p_value']:.2g}); Rogan-Gladen assumes that they are alike"
            )
    if data["n_seen_before"]:
        yield (
            f"{count(data['n_seen_before'], 'hallucinated answer')} set the guardrail's threshold "
            "and were left out, so the share of hallucinated answers is not that of the file; use "
            "answers that the calibration has not seen"
        )
    if data["n_sharing_a_group"]:
        # The variance of answers that are all alike within groups is that of the groups.
        times = (data["n_human"] / (data["n_human"] - data["n_sharing_a_group"])) ** 0.5
        yield (
            f"{data['n_sharing_a_group']:,} of {count(data['n_human'], 'row')} with a human label "
            "share a group (a question, a source) with another one; every interval and p-value "
            "takes rows as independent, none is exact here: where the answers of a group are alike "
            f"the intervals are {times:.1f} times too narrow, or more. Have people label one "
            "answer of each group"
        )
    if data["n_human_alone"]:
        yield (
            f"{count(data['n_human_alone'], 'row')} with a human label and no judge label: used by "
            "the human labels alone, and left out of the comparison and the corrections"
        )
    if data["n_errors"]:
        yield f"the detector failed on {count(data['n_errors'], 'answer')}: counted as flagged"
    if data["n_undefined"]:
        by_column = "column" in result["flag"]
        policy = "counted as flagged" if by_column else "the guardrail's policy decided"
        yield f"{count(data['n_undefined'], 'answer')} without a score: {policy}"


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
