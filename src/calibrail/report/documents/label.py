"""Documents of label, of certificates from labels and of audit samples."""

import shlex
from collections.abc import Mapping
from functools import partial
from math import ceil, exp
from typing import Final

from calibrail.conformal.sequential.forecast import fewest_drawn
from calibrail.formatting import number
from calibrail.options import Drawing, Requirement
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.report import document as parts
from calibrail.report.document import Document, Facts, Json, Text
from calibrail.report.documents import calibrate_sections as messages
from calibrail.report.documents import guardrail, measures
from calibrail.report.figures.sequential import BETS, intervals_svg, wealth_svg
from calibrail.report.messages import facts, remarks, say, say_first
from calibrail.report.text import capital, count_of, last_part

#: From so many times the fewest answers on nothing is said: the shares of both classes are unknown.
_PLENTY: Final = 4
#: Chance below which labels made elsewhere do not seem to be those that a lot chose.
_UNLIKELY: Final = 0.05
#: Lines of the log itself, and what a crash tore: nobody misses them.
_SILENT: Final = ("no_decision", "torn")


def foreseen(certificate: Json) -> str:
    """Say how many more labels to expect, or that nobody can."""
    expect = certificate["sequential"]["expect"]
    unforeseeable = expect["unforeseeable"] or ""
    cases = {
        "label.at_an_end": _at_an_end(certificate),
        "label.few_labelled": unforeseeable.startswith("few_"),
        "label.unforeseeable": expect["low"] is None,
        "label.to_expect": True,
    }
    if unforeseeable in ("decided", "queue") and not cases["label.at_an_end"]:
        return ""
    return say_first(cases, expect, few=unforeseeable.removeprefix("few_"))


def next_step(certificate: Json) -> str:
    """Say what to do next."""
    verdict, found = certificate["verdict"], certificate["sequential"]
    unsaid = certificate["freshness"] == "unknown" and found["verdict"] == "certified"
    return say_first(
        {
            "certify.use": verdict == "certified",
            "label.do_not_rely": verdict == "rejected",
            "certify.no_look_left": certificate.get("reason_code") == "no_look_left",
            "verdict.label_by_people": certificate.get("reason_code") == "labels_of_judge",
            "label.label_unseen": found["withheld"],
            "label.say_fresh": unsaid,
            "label.settle": found["held_up"]["disagreements"],
            "label.label_other_traces": _at_an_end(certificate),
            "label.go_on_blind": certificate.get("reason_code") == "reviewed",
            "label.start": not found["labelled"],
            "label.go_on": True,
        }
    )


def _at_an_end(certificate: Json) -> bool:
    """Return whether nothing is left to draw or to label, and nothing is decided.

    Of a review the labels before it decide.
    """
    found, reviewed = certificate["sequential"], certificate.get("reason_code") == "reviewed"
    if reviewed and found["blind_verdict"] == "rejected":
        return True
    undecided = (reviewed or found["verdict"] == "inconclusive") and not found["n_waiting"]
    return bool(found["exhausted"] and undecided)


def label_document(certificate: Json, *, guardrail: str = "the guardrail") -> Document:
    """Return the verdict so far, what it rests on, and what is still to do.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --labels --json`` prints.
    guardrail : str
        What the guardrail is called.
    """
    verdict, found = certificate["verdict"], certificate["sequential"]
    expect, ends = found["expect"], remarks("label.ends", found)
    shown = measures.together(certificate)
    known = not (expect["unforeseeable"] or expect["median"] is None or _at_an_end(certificate))
    lines = []
    for code, line in zip(("coverage", "fpr"), measures.rates(shown, certificate), strict=True):
        # Weighted rates are other numbers than the counts beside them.
        rate = shown[code]
        counts = f"weighted; {count_of(rate)} labelled" if rate["method"] == "betting" else line[4]
        lines.append((*line[:4], counts))
    more = f"about {expect['median']:,} more" if known else ""
    headline = messages.verdict_headline(certificate)
    meaning = messages.verdict_summary(certificate)
    begun = found["labelled"] or found["withheld"]
    if not begun:
        asked = Requirement(found["max_fpr"], found["min_coverage"], found["confidence"])
        needed = fewest_drawn(asked, Drawing(**found["drawing"]))
        headline, lines = "Not started: nothing is labelled yet", []
        meaning = say("label.not_started", certificate, needed=needed)
    both = facts("label.agreement_facts", found["agreement"]) if found["agreement"] else []
    labelled = facts("label.labelled_facts", found)
    return Document(
        "certificate of" if verdict == "certified" else "labels for",
        subject=last_part(guardrail),
        headline=headline,
        verdict=verdict,
        summary=f"{meaning}{messages.look_number(certificate)}",
        tiles=(*measures.tiles(lines), parts.Tile("Labelled", f"{found['labelled']:,}", more)),
        blocks=(
            parts.section(
                "On the labels so far",
                measures.rates_figure(shown, certificate) if begun else None,
                measures.table("On the labels so far", lines, shown["confidence"]),
                Text(say("label.how_sure", certificate, ends=ends)),
                Text(messages.look_number(certificate, first=True).lstrip()),
                Text(say("label.judge", found["judge"])) if found.get("judge") else None,
                Text(foreseen(certificate), "strong"),
            ),
            _bets(found) if begun else None,
            _course(certificate),
            parts.tabled("Two annotators on the same answers", ("Measure", ">Value"), both),
            parts.tabled("How it was labelled", ("What", ">Value"), labelled),
        ),
        warnings=[parts.Bullet(text) for text in certificate["warnings"]],
        next_step=next_step(certificate),
        data=certificate["data"],
    )


def reason(found: Json, labels: Json) -> str:
    """Say why the verdict is what it is.

    Parameters
    ----------
    found : mapping
        A ``SequentialCertificate``.
    labels : mapping
        How many answers have which final label.
    """
    nth = ""
    first, second = (say(f"label.{code}") for code in found["reasons"])
    if found["decided"] is not None:
        n = found["decided"]["labelled"]
        teen = n % 100 // 10 == 1
        nth = f"{n:,}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"
    labelled = sum(labels.get(name, 0) for name in ("hallucinated", "faithful", "unsure"))
    about = {"first": capital(first), "second": second, "labelled": labelled}
    return say("label.reason", about, nth=nth, unsure=labels["unsure"])


def warnings(certificate: Json) -> list[str]:
    """Say what weakens a verdict from labels, or holds it up."""
    found = certificate["sequential"]
    share = found["n_unsure"] / max(1, found["labelled"])
    kappa = (found["agreement"] or {}).get("kappa") or {"upper": None}
    return remarks("label.weakens", certificate, found, share=share, kappa=kappa)


def _bets(found: Json) -> parts.Section:
    """Show what each bet has won, beside what it has to win."""
    rows: list[parts.Row] = []
    for name, (meaning, _, good) in BETS.items():
        won, goal = found["log_wealth"][name], found["kept_at" if good else "broken_at"]
        wealth = "> 10^9" if won > 20.72 else number(exp(won), 3)
        verdict = "certified needs both" if good else "rejected needs one"
        rows.append((meaning, wealth, f"{exp(goal):,.0f}", verdict))
    heads = "A bet that", ">Has won", ">Has to win", "For"
    return parts.tabled("Bets on what the labels show", heads, rows, parts.note(say("label.bets")))


def _course(certificate: Json) -> parts.Section | None:
    found = certificate["sequential"]
    course = found["course"]
    if len(course["labelled"]) < 2:
        return None
    wealth, intervals = partial(wealth_svg, course, found), partial(intervals_svg, course)
    return parts.section(
        "Over the labels",
        parts.Figure("wealth", wealth, say("label.wealth_figure")),
        parts.Figure("intervals", partial(intervals, certificate), say("label.intervals_figure")),
        where="page",
    )


def too_few(
    needed: tuple[int, int],
    n: int,
    *,
    floors: tuple[float, float] | None,
    instead: Mapping[str, tuple[int, int]],
) -> list[str]:
    """Say where even a guardrail without an error would need about all traces, or more.

    Parameters
    ----------
    needed : (int, int)
        Hallucinated and faithful answers drawn that it takes.
    n : int
        Answers of the traces.
    floors : (float, float) or None
        With ``active``: least probabilities of a label of a flagged and of a passed answer.
    instead : mapping
        Other ways of drawing that take far fewer, with their numbers.
    """
    total, least = sum(needed), None
    if n >= (total if floors is None else _PLENTY * total):
        return []
    if floors is not None:
        least = sum(ceil(count * floor) for count, floor in zip(needed, floors, strict=True))
    ways = [f"{name} takes {one:,} and {two:,}" for name, (one, two) in instead.items()]
    about = {"needed": needed, "n": n, "least": least, "ways": ways, "ends_open": n >= total}
    return [say("label.too_few", about)]


def gone(n: int, whose: str = "") -> str:
    """Say that labels are gone."""
    return say("label.gone", n=n, whose=whose)


def document(content: Json) -> Document:
    """Return how far the labels are, what they decide, and what to do next.

    Parameters
    ----------
    content : mapping
        What ``calibrail label --json`` prints.
    """
    counts = content["counts"]
    taken = {name: content.get(name) for name in ("imported", "exported")}
    lost = counts.get("lost") and gone(counts["lost"])
    return Document(
        "labels",
        headline=say("label.how_many", counts),
        summary=_decided(content),
        blocks=(
            *map(Text, remarks("label.progress", content, counts, taken, lost=lost)),
            Facts(facts("label.counts", counts)),
        ),
        next_step=_next(content),
        data={"source": content["labels"], "n": counts["labelled"]},
    )


def _decided(content: Json) -> str:
    """Say what the labels decide, or what they lack."""
    counts, purpose, verdict = content["counts"], content["plan"]["purpose"], content.get("verdict")
    needed, held, drawn = counts["needed"], "", ""
    watches, certifies = purpose == "watch", purpose == "certify"
    if counts["holding"]:
        held = f" {say('label.behind_an_open_one', counts)}"
    if counts["exhausted"]:
        drawn = f" {say('label.drawn')}"
    if needed is None and not (watches or certifies):
        return drawn.strip()
    # How far thresholds from so many labels differ, and those from more.
    spans = dict(
        zip(("now", "twice", "four"), content.get("coverage_to_expect") or (), strict=False)
    )
    return say_first(
        {
            "label.log_to_label": watches and counts["waiting"],
            "label.log_labelled": watches,
            "label.decided_withheld": certifies and content.get("withheld"),
            "label.decided_certified": certifies and verdict == "certified",
            "label.decided_rejected": certifies and verdict == "rejected",
            "label.undecided": certifies,
            "label.enough": counts["decided"],
            "label.few_faithful_to_test": counts["missing"] == 0,
            "label.enough_if_settled": needed is not None and counts["found"] >= needed,
            "label.more_needed": True,
        },
        counts,
        spans,
        withheld=content.get("withheld"),
        held=held,
        drawn=drawn,
        promise=content["plan"].get("promise") or {},
    )


def _next(content: Json) -> str:
    """Say what to do next with a folder of labels."""
    counts, plan, files = content["counts"], content["plan"], content.get("exported")
    all_labelled = counts["exhausted"] and not counts["waiting"]
    watches, certifies = plan["purpose"] == "watch", plan["purpose"] == "certify"
    calibrates = not (watches or certifies)
    promise = plan.get("promise") if calibrates else None
    taken = ["--annotator", content.get("annotator"), "--import", files[0]] if files else []
    options = []
    if promise is not None:
        options = ["--alpha", str(promise["alpha"])]
        if promise["guarantee"] in OF_THIS_THRESHOLD:
            options += ["--guarantee", promise["guarantee"], "--delta", str(promise["delta"])]
    decided = content.get("verdict") in ("certified", "rejected") or content.get("withheld")
    return say_first(
        {
            "label.import_file": files,
            "label.settle_here": counts["disagreements"] and not counts["decided"],
            "label.watch_again": watches and not counts["waiting"],
            "label.see_verdict": certifies and decided,
            "label.see_how_far": certifies and all_labelled,
            "label.more_traces": calibrates and all_labelled and not counts["decided"],
            "label.calibrate": promise is not None and counts["decided"],
            "label.go_on_here": True,
        },
        import_words=shlex.join(taken),
        promise_words=shlex.join(options),
        judge_words=" ".join(
            f"--judge-column {shlex.quote(name)}" for name in plan.get("judges", ())
        ),
        again=shlex.join(["calibrail", "label", "-o", "LABELS", *content["options"]]),
    )


def doubts(certificate: Json) -> list[str]:
    """Say what is doubtful about the labels that a verdict rests on.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --labels --json`` prints.
    """
    found = certificate["sequential"]
    there = {name: found["annotators"].get(name, 0) for name in found["lost"]}
    lost = (gone(n, f" of {name} ({there[name]:,} are there)") for name, n in found["lost"].items())
    return [*remarks("label.doubts", found, unlikely=_UNLIKELY), *lost]


def audit_sample_document(content: Json) -> Document:
    """Return what was drawn, from how many answers, and who labels it where.

    Parameters
    ----------
    content : mapping
        What ``calibrail label --from-log --json`` prints.
    """
    log, outcome, drawn = content["log"], content["outcome"], content["n_drawn"]
    left_out = [
        f"{n:,} {guardrail.skipped(code)}"
        for code, n in log["skipped"].items()
        if code not in _SILENT
    ]
    changed = bool(log["found"].keys() & {"changed", "gap", "previous", "cut"})
    notes = remarks("label.sample_notes", content, left_out=left_out, is_changed=changed)
    return Document(
        "answers to label",
        headline=say(
            "label.sample_to_label" if outcome == "drawn" else "label.sample_empty", content
        ),
        summary=say_first(
            {
                "label.nothing_new": outcome == "nothing new",
                "label.budget_spent": outcome == "budget spent",
                "label.all_drawn": drawn == content["n_rows"] == content["n_handed_out"],
                "label.drawn_actively": content["design"] == "active",
                "label.drawn_by_lot": True,
            },
            content,
        ),
        blocks=(*map(Text, notes), Facts(facts("label.sample_facts", content))),
        next_step=say_first(
            {
                "label.label_sample": content["n_labelled"] < content["n_handed_out_so_far"],
                "label.call_again": not content["n_labelled"],
                "label.watch_sample": True,
            }
        ),
        data={"source": content["folder"], "n": drawn},
    )
