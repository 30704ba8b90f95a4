"""What does `calibrail label` say when it ends?"""

import shlex
from collections.abc import Iterator, Sequence

from calibrail.phrases import count, listed, percent
from calibrail.report.blocks import Facts, Json, Text
from calibrail.report.document import Document
from calibrail.settings.promise import OF_THIS_THRESHOLD

_VERDICTS = {
    "certified": "The guardrail is certified: the labels show that it keeps what was asked.",
    "rejected": "The guardrail is rejected: the labels show that it does not keep what was asked.",
}


def document(content: Json) -> Document:
    """Return how far the labels are, what they decide, and what to do next.

    Parameters
    ----------
    content : mapping
        What ``calibrail label --json`` prints.
    """
    counts = content["counts"]
    labels = [(name, f"{counts[name]:,}") for name in ("faithful", "hallucinated", "unsure")]
    open_ones = [
        ("skipped by you", counts["skipped"]),
        ("annotators disagree", counts["disagreements"]),
        ("final, but not counted yet", counts["holding"]),
    ]
    return Document(
        "labels",
        headline=f"{count(counts['labelled'], 'answer')} labelled, {counts['by_you']:,} by you",
        summary=_decided(content),
        blocks=(
            *(Text(sentence) for sentence in _exchanged(content)),
            *(Text(sentence) for sentence in _left_out(content)),
            Facts([*labels, *((name, f"{n:,}") for name, n in open_ones if n)]),
        ),
        next_step=_next(content),
        data={"source": content["labels"], "n": counts["labelled"]},
    )


def gone(n: int, whose: str = "") -> str:
    """Say that labels are gone."""
    return (
        f"labels.jsonl lacks at least {count(n, 'label')}{whose} that handed.jsonl knows of, and "
        "that nobody took back: restore the file from a copy before anybody labels on"
    )


def begun_before(looks: Sequence[Json]) -> str:
    """Say before the first label that labels of the same traces have been begun already."""
    folder, seed = looks[0]["folder"], looks[0]["seed"]
    return (
        f"labels of the same traces for this guardrail were begun in {folder} (seed {seed}); these "
        "are a further look, and certify nothing, whichever answers are drawn: whoever labels with "
        "seed after seed certifies a bad guardrail in the end. Go on there instead (calibrail "
        f"label -o {shlex.quote(folder)}), or label other traces; a rejection would stand"
    )


def _decided(content: Json) -> str:
    counts, plan = content["counts"], content["plan"]
    if plan["purpose"] == "watch":
        if counts["waiting"]:
            return f"Drawn from the log, and still to label: {count(counts['waiting'], 'answer')}."
        return "Every answer that was drawn from the log is labelled."
    drawn = " Every answer of the traces is drawn." if counts["exhausted"] else ""
    if plan["purpose"] == "certify":
        if content["withheld"]:
            return f"The labels decide, but the verdict is withheld. {content['withheld']}"
        if content["verdict"] in _VERDICTS:
            return _VERDICTS[content["verdict"]]
        return "The labels do not decide yet." + (_held_up(counts) or drawn)
    if counts["needed"] is None:
        return drawn.strip()
    if counts["decided"]:
        return (
            "There are enough hallucinated answers: one half of the answers sets the threshold, "
            f"the other one tests it. {_what_more_brings(content)}"
        )
    if counts["missing"] == 0:
        few = "There are enough hallucinated answers, and too few faithful ones to test."
        return f"{few}{_held_up(counts)}{drawn}"
    if counts["found"] >= counts["needed"]:
        # Those that do not count yet are enough, if only the ones before them were settled.
        return (
            f"There are enough hallucinated answers, but not all of them count.{_held_up(counts)}"
        )
    left = counts["needed"] - counts["found"]
    more = f"The promise needs {count(left, 'more hallucinated answer')}"
    if counts["to_expect"] is not None and not counts["exhausted"]:
        more += f", about {count(counts['to_expect'], 'label')} at the rate so far"
    return f"{more}.{_held_up(counts)}{drawn}"


def _what_more_brings(content: Json) -> str:
    """Say how far thresholds from so many labels differ, and those from more."""
    now, twice, four = content["coverage_to_expect"]
    spans = [
        f"{percent(item['lower'])} and {percent(item['upper'])}" for item in (now, twice, four)
    ]
    few = now["hallucinated"] < 2 * content["counts"]["needed"]
    said = "These are the fewest that the promise allows. " if few else ""
    return (
        f"{said}Of ten thresholds from {now['hallucinated']:,} of them nine catch between "
        f"{spans[0]} of hallucinations; from twice as many between {spans[1]}, from four times as "
        f"many between {spans[2]}. What one catches beyond the promise is paid for with false "
        "alarms, and how many nobody can know before: go on, if at all, before you look at a "
        "report."
    )


def _held_up(counts: Json) -> str:
    """Say which labels do not count yet, and why."""
    if not (n := counts["holding"]):
        return ""
    return (
        f" {count(n, 'label')} behind an open answer will count once that is settled: answers "
        "count in the order in which they were drawn."
    )


def _left_out(content: Json) -> Iterator[str]:
    """Say which answers of the traces are not labelled, and why."""
    traces = content["plan"]["traces"]
    if n := traces["n_quarantined"]:
        yield (
            f"Rows of the traces that cannot be labelled: {n:,}; quarantine.jsonl names each with "
            "its reason."
        )
    if n := traces["n_seen_before"]:
        yield f"Answers that set the guardrail's threshold, and are passed over: {n:,}."
    if n := content["counts"]["copies"]:
        yield f"Near copies of answers drawn before, which are passed over: {n:,}."
    if n := content["counts"].get("lost"):
        yield f"Watch out: {gone(n)}."


def _exchanged(content: Json) -> Iterator[str]:
    """Say what a file brought, and what went out in one."""
    if (taken := content.get("imported")) is not None:
        parts = [count(taken["labelled"], "label")]
        others = (("again", "there already"), ("blank", "without a label"))
        parts += [f"{taken[name]:,} {said}" for name, said in others if taken[name]]
        if taken["problems"]:
            parts.append(f"{len(taken['problems']):,} not taken, see below")
        yield f"From {taken['file']}: {', '.join(parts)}."
    if files := content.get("exported"):
        waits = "watch" if content["plan"]["purpose"] == "watch" else "verdict"
        yield (
            f"Wrote {listed(list(files))} for {content['annotator']}. Nobody else is asked for "
            f"these answers, and the {waits} waits for their labels: bring them back with "
            "--import."
        )


def _next(content: Json) -> str:
    if files := content.get("exported"):
        words = ["--annotator", content["annotator"], "--import", files[0]]
        return f"label the file, then: calibrail label -o LABELS {shlex.join(words)}"
    counts, plan = content["counts"], content["plan"]
    again = shlex.join(["calibrail", "label", "-o", "LABELS", *content["options"]])
    if counts["disagreements"] and not counts["decided"]:
        return f"settle what annotators disagree about: {again} --settle"
    if plan["purpose"] == "watch":
        if counts["waiting"]:
            return f"go on: {again}"
        return (
            "see what the labels show: calibrail monitor GUARDRAIL LOG -o WATCH --labels LABELS; "
            "draw more: calibrail audit-sample GUARDRAIL LOG -o LABELS"
        )
    if plan["purpose"] == "certify":
        certify = "calibrail certify GUARDRAIL --labels LABELS"
        if content["verdict"] in _VERDICTS or content["withheld"]:
            return f"see the verdict, recomputed from the files: {certify}"
        if counts["exhausted"] and not counts["waiting"]:
            return f"see how far it is: {certify}"
        return f"go on: {again}"
    promise = plan["promise"]
    if counts["exhausted"] and not counts["waiting"] and not counts["decided"]:
        return (
            "all answers are drawn: begin in another folder with more traces, or with a larger "
            "--alpha: calibrail label MORE -o OTHER --until calibrated"
        )
    if promise is None or not counts["decided"]:
        return f"go on: {again}"
    options = ["--alpha", str(promise["alpha"])]
    if promise["guarantee"] in OF_THIS_THRESHOLD:
        options += ["--guarantee", promise["guarantee"], "--delta", str(promise["delta"])]
    return (
        "calibrate, best with --max-fpr and the false alarms that you accept, for a verdict, and "
        "with --score for another score than the usual one: "
        f"calibrail calibrate LABELS {shlex.join(options)} -o runs/labelled"
    )
