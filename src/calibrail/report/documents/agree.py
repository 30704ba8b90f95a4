"""Agree."""

import shlex
from collections.abc import Iterable, Iterator
from typing import Final

from calibrail.evaluation.judge_agreement import RateEstimate
from calibrail.formatting import count, percent
from calibrail.report import document as parts
from calibrail.report.document import Document, Json
from calibrail.report.documents.measures import part_note
from calibrail.report.text import bounds, count_of, estimate, interval, share

_RATES: Final = {"prevalence": "Hallucinated", "coverage": "Caught", "fpr": "False alarms (FPR)"}
_JUDGED: Final = {
    "sensitivity": "Finds hallucinated (sensitivity)",
    "specificity": "Knows faithful (specificity)",
}
_METHODS: Final = {
    "judge_only": "Judge only",
    "human_only": "Human only",
    "rogan_gladen": "Rogan-Gladen",
    "prediction_powered": "Pred.-powered",
}


def document(result: Json) -> Document:
    """Return the agreement, the four estimates side by side, and which to trust.

    Parameters
    ----------
    result : mapping
        What ``calibrail agree --json`` prints.
    """
    return Document(
        "agreement of",
        subject="judge and people",
        headline=_headline(result),
        blocks=(_agreement(result), *_estimates(result)),
        warnings=[parts.Bullet(text) for text in result["warnings"]],
        notes=part_note(result["data"].get("part")),
        next_step=_next_step(result),
        data=result["data"],
    )


def _headline(result: Json) -> str:
    data, agreed = result["data"], result["agreement"]["agreement"]
    labels = (
        f"{count(data['n'], 'labelled answer')}: {data['n_judge']:,} by the judge, "
        f"{data['n_human']:,} by people, {data['n_both']:,} by both."
    )
    if agreed["estimate"] is None:
        return f"{labels} The judge cannot be compared with people."
    return f"{labels} Judge and people agree on {share(agreed)} of those ({interval(agreed)})."


def _agreement(result: Json) -> parts.Section:
    """Show how far the judge agrees with people, and which way it leans."""
    agreement = result["agreement"]
    rows = []
    for key, name in _JUDGED.items():
        rate = agreement[key]
        span = interval(rate) if rate["n"] else rate["reason"]
        rows.append((name, share(rate), span, count_of(rate)))
    kappa = agreement["kappa"]
    span, beyond = kappa["reason"] or "", ""
    if kappa["estimate"] is not None:
        span, beyond = bounds(kappa, 2), "agreement beyond chance"
    rows.append(("Cohen's kappa", estimate(kappa, 2), span, beyond))
    heads = parts.texts(f"{percent(result['confidence'])} interval", "Counts")
    columns = (parts.TableColumn("Measure", brief=""), parts.TableColumn("Value", "right"), *heads)
    title = "The judge, where people have labelled, too"
    return parts.section(
        title, parts.Table(title, columns, rows), parts.Text(_leaning(agreement["asymmetry"]))
    )


def _leaning(asymmetry: Json) -> str:
    """Say whether the judge calls hallucination more or less often than people do."""
    if asymmetry["p_value"] is None:
        return ""
    judge, human = asymmetry["judge_alone"], asymmetry["human_alone"]
    leans = f"the judge calls hallucination {asymmetry['direction']}"
    if asymmetry["direction"] == "not shown":
        leans = "no sign that the judge leans one way"
    return (
        f"Of {count(judge + human, 'disagreement')}, {judge:,} {'is' if judge == 1 else 'are'} "
        f"called hallucinated by the judge alone and {human:,} by people alone: {leans} "
        f"(exact McNemar test, p = {asymmetry['p_value']:.2g})."
    )


def _estimates(result: Json) -> Iterator[parts.Block]:
    """Yield the four estimates of each rate, what they assume and lack, and which to trust."""
    rows: list[parts.Row] = []
    missing, trusted = [], []
    for key, rate in result["rates"].items():
        title, trust, cells = _RATES[key], rate["trust"], []
        for method, name in _METHODS.items():
            value = rate[method]
            mark = " *" if trust["method"] == method and value["estimate"] is not None else ""
            cells.append(parts.Cell(f"{share(value)}{mark}", interval(value)))
            if value["estimate"] is None:
                missing.append(f"{title}, {name}: {value['reason']}.")
            elif "estimate" in value["clipped"]:
                cut_off = "the value lay outside 0 to 100% and was cut off"
                missing.append(f"{title}, {name}: {cut_off}.")
        rows.append((title, *cells))
        best = "none of them" if trust["method"] is None else f"{_METHODS[trust['method']]} (*)"
        trusted.append(f"{title}: {best}; {trust['reason']}.")
    title = f"Four estimates, with {percent(result['confidence'])} intervals"
    columns = (parts.TableColumn("Rate", brief=""), *parts.texts(*_METHODS.values()))
    yield parts.section(title, parts.Table(title, columns, rows, two_lines=True))
    assumed = result["rates"].get("coverage", result["rates"]["prevalence"])
    yield parts.Bullets(
        "What each takes for granted",
        [
            f"{name}: {assumed[method]['assumption']} ({assumed[method]['promise']})."
            for method, name in _METHODS.items()
        ],
    )
    yield parts.Bullets("Missing or cut off", missing)
    yield parts.Bullets("Which to trust", trusted)


def _next_step(result: Json) -> str:
    if any(rate["trust"]["method"] is None for rate in result["rates"].values()):
        return "Draw rows at random, have people label them, and run this again."
    if result["flag"] is None:
        return "Name what flags answers (--guardrail, or --score-column) to get its rates, too."
    command = "calibrail certify on human labels alone"
    if "guardrail" in result["flag"]:
        column = shlex.quote(result["columns"]["human"])
        command += f", e.g. calibrail certify GUARDRAIL DATA --label-column {column} --max-fpr 0.2"
    return f"These intervals describe; a verdict needs exact ones: {command}."


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
