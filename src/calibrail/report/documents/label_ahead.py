"""What lies ahead of a folder of labels: how many more of them, and what to do next?"""

from calibrail.phrases import count, percent
from calibrail.report.blocks import Json


def more(certificate: Json) -> str:
    """Say in a few words how many more labels to expect; nothing where nobody can."""
    expect = certificate["sequential"]["expect"]
    if _at_an_end(certificate) or expect["unforeseeable"] or expect["median"] is None:
        return ""
    return f"about {expect['median']:,} more"


def foreseen(certificate: Json) -> str:
    """Say how many more labels to expect, or that nobody can."""
    if _at_an_end(certificate):
        return "All answers of these traces are drawn, and the labels do not decide."
    expect = certificate["sequential"]["expect"]
    match expect["unforeseeable"]:
        case "decided":
            return ""
        case "few_hallucinated" | "few_faithful" as few:
            return (
                "How many more labels it takes cannot be foreseen yet: fewer than five "
                f"{few.removeprefix('few_')} answers are labelled."
            )
    if expect["low"] is None:
        return (
            "How many more labels it takes cannot be foreseen: of futures that the labels so far "
            f"leave possible {percent(expect['inconclusive'])} have no verdict within "
            f"{count(expect['budget'], 'further label')}. The rates seem to lie close to what is "
            "asked."
        )
    ends = f"from {expect['low']:,} "
    ends += (
        f"to more than {expect['budget']:,}" if expect["high"] is None else f"to {expect['high']:,}"
    )
    middle = (
        f"more than {expect['budget']:,}"
        if expect["median"] is None
        else f"about {expect['median']:,}"
    )
    open_ = expect["inconclusive"]
    left = f", {percent(open_)} in neither within {expect['budget']:,}" if open_ else ""
    return (
        f"To expect: {middle} more labels ({ends} in eight of ten futures that the labels so far "
        f"leave possible). {percent(expect['certified'])} of them end in certified, "
        f"{percent(expect['rejected'])} in rejected{left}."
    )


def next_step(certificate: Json) -> str:
    """Say what to do next."""
    verdict, found = certificate["verdict"], certificate["sequential"]
    if verdict == "certified":
        return (
            "Put this guardrail to use on answers from the same source: calibrail check GUARDRAIL "
            "TRACES -o decisions.jsonl"
        )
    if verdict == "rejected":
        return (
            "Do not rely on this guardrail for what was asked; try another detector, or ask for "
            "less (--min-coverage, --max-fpr) of new answers."
        )
    if found["withheld"]:
        return (
            "Label answers that no earlier look has seen: other traces, in another folder "
            "(calibrail label NEW -o OTHER)"
        )
    if certificate["freshness"] == "unknown" and found["verdict"] == "certified":
        return (
            "If these traces are new to the guardrail, say so (--fresh): calibrail certify "
            "GUARDRAIL --labels LABELS --fresh"
        )
    if found["held_up"]["disagreements"]:
        return "Settle what annotators disagree about: calibrail label -o LABELS --settle"
    if _at_an_end(certificate):
        return (
            "Label other traces, in another folder (calibrail label NEW -o OTHER), and more of "
            "them: labels of this folder do not count there"
        )
    return "Go on labelling; what is there stays: calibrail label -o LABELS"


def _at_an_end(certificate: Json) -> bool:
    """Return whether nothing is left to draw or to label, and nothing is decided."""
    found = certificate["sequential"]
    undecided = found["verdict"] == "inconclusive" and not found["n_waiting"]
    return bool(found["exhausted"] and undecided)
