"""Documents of label, of certificates from labels and of audit samples."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil, exp
from typing import Final

from calibrail.formatting import count, listed, number, percent
from calibrail.options.guarantee import OF_THIS_THRESHOLD
from calibrail.report import document as parts
from calibrail.report.document import Document, Facts, Json, Text
from calibrail.report.documents import guardrail, measures
from calibrail.report.documents.calibrate_messages import verdict_summary
from calibrail.report.figures.sequential import BETS, intervals_svg, wealth_svg
from calibrail.report.messages import say
from calibrail.report.text import (
    bounds,
    capital,
    count_of,
    estimate,
    interval,
    p_value,
    plain,
    share,
)


def more(certificate: Json) -> str:
    """Say in a few words how many more labels to expect; nothing where nobody can."""
    expect = certificate["sequential"]["expect"]
    if _at_an_end(certificate) or expect["unforeseeable"] or expect["median"] is None:
        return ""
    return f"about {expect['median']:,} more"


def foreseen(certificate: Json) -> str:
    """Say how many more labels to expect, or that nobody can."""
    if _at_an_end(certificate):
        return say("label.at_an_end")
    expect = certificate["sequential"]["expect"]
    match expect["unforeseeable"]:
        case "decided":
            return ""
        case "few_hallucinated" | "few_faithful" as few:
            return say("label.few_labelled", few=few.removeprefix("few_"))
    return say("label.unforeseeable" if expect["low"] is None else "label.to_expect", expect)


def next_step(certificate: Json) -> str:
    """Say what to do next."""
    verdict, found = certificate["verdict"], certificate["sequential"]
    if verdict == "certified":
        return say("certify.use")
    if verdict == "rejected":
        return say("label.do_not_rely")
    if found["withheld"]:
        return say("label.label_unseen")
    if certificate["freshness"] == "unknown" and found["verdict"] == "certified":
        return say("label.say_fresh")
    if found["held_up"]["disagreements"]:
        return say("label.settle")
    return say("label.label_other_traces" if _at_an_end(certificate) else "label.go_on")


def _at_an_end(certificate: Json) -> bool:
    """Return whether nothing is left to draw or to label, and nothing is decided."""
    found = certificate["sequential"]
    undecided = found["verdict"] == "inconclusive" and not found["n_waiting"]
    return bool(found["exhausted"] and undecided)


#: What each bet that is won, or neither, says.
_SHOWN: Final = {
    "coverage_shown": "it is shown that enough is caught ({})",
    "coverage_refuted": "it is shown that too little is caught",
    "coverage_open": "it is open whether enough is caught",
    "fpr_shown": "it is shown that false alarms are few enough ({})",
    "fpr_refuted": "it is shown that false alarms are too many",
    "fpr_open": "it is open whether false alarms are few enough",
}


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
    ends = _ends(found)
    lines = _rates(certificate)
    return Document(
        "certificate of",
        subject=guardrail,
        headline=verdict.capitalize(),
        verdict=verdict,
        summary=verdict_summary(certificate),
        tiles=(
            _tile("Caught", lines[0], ends.get("coverage")),
            _tile("False alarms", lines[1], ends.get("fpr")),
            parts.Tile("Labelled", f"{found['labelled']:,}", more(certificate)),
        ),
        blocks=(
            parts.section(
                "On the labels so far",
                measures.rates_figure(certificate, certificate),
                measures.table("On the labels so far", lines, certificate["confidence"]),
                parts.Text(_how_sure(certificate)),
                parts.Text(foreseen(certificate), "strong"),
            ),
            _bets(found),
            _course(certificate),
            _agreement(found),
            _labels(found),
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
    ends = _ends(found)
    sides = [_SHOWN[code].format(ends.get(code.split("_")[0])) for code in found["reasons"]]
    text = f"{capital(sides[0])}; {sides[1]}."
    if found["decided"] is not None:
        text += f" The verdict fell with the {_ordinal(found['decided']['labelled'])} label."
    if n := labels["unsure"]:
        text += (
            f" {count(n, 'unsure answer counts', 'unsure answers count')} against either verdict."
        )
    return text


def warnings(certificate: Json) -> list[str]:
    """Say what weakens a verdict from labels, or holds it up."""
    found, texts = certificate["sequential"], []
    held = found["held_up"]
    if held["final"]:
        why = [
            count(held["open"], "answer without its label", "answers without their labels"),
            count(held["disagreements"], "disagreement"),
        ]
        named = " and ".join(
            text for text, n in zip(why, (held["open"], held["disagreements"]), strict=True) if n
        )
        texts.append(
            f"{count(held['final'], 'label does', 'labels do')} not count yet: answers count in "
            f"the order they were drawn, and before {'it' if held['final'] == 1 else 'them'} "
            f"{'is' if held['open'] + held['disagreements'] == 1 else 'are'} {named}; label what "
            "is open (calibrail label), or settle (--settle)"
        )
    if found["n_skipped"]:
        texts.append(say("label.skipped", found))
    share_unsure = found["n_unsure"] / max(1, found["labelled"])
    if share_unsure > 0.05:
        texts.append(say("label.many_unsure", share=share_unsure))
    kappa = (found["agreement"] or {}).get("kappa") or {}
    if kappa.get("upper") is not None and kappa["upper"] < 0.6:
        texts.append(say("label.low_kappa", kappa=kappa))
    if found["withheld"] and found["verdict"] == "inconclusive":
        texts.append(say("label.withheld"))
    if certificate["n_undefined"]:
        texts.append(say("label.without_score", certificate))
    return texts


def _ends(found: Json) -> dict[str, str]:
    """Return what is shown of each rate that a bet has shown to keep what was asked."""
    ends = {
        "coverage": f"at least {percent(found['coverage_at_least'])}",
        "fpr": f"at most {percent(found['fpr_at_most'])}",
    }
    return {name: end for name, end in ends.items() if f"{name}_shown" in found["reasons"]}


def _tile(name: str, line: measures.Line, end: str | None) -> parts.Tile:
    """Return a rate with what is shown of it, or with its interval while nothing is."""
    return parts.Tile(name, line[1], f"shown: {end}" if end else line[2], line[3])


def _rates(certificate: Json) -> list[measures.Line]:
    """Return both rates; weighted, they are other numbers than the counts beside them."""
    ends, lines = _ends(certificate["sequential"]), []
    for name, line in zip(
        ("coverage", "fpr"), measures.rates(certificate, certificate), strict=True
    ):
        counts = line[4]
        if certificate[name]["method"] == "betting":
            counts = f"weighted; {count_of(certificate[name])} labelled"
        if end := ends.get(name):
            counts += f"; shown: {end}"
        lines.append((*line[:4], counts))
    return lines


def _ordinal(n: int) -> str:
    tens = n % 100 // 10 == 1
    return f"{n:,}{'th' if tens else {1: 'st', 2: 'nd', 3: 'rd'}.get(n % 10, 'th')}"


def _how_sure(certificate: Json) -> str:
    method = certificate["coverage"]["method"]
    if _ends(certificate["sequential"]):
        shown = (
            ' "Certified" needs one end of each, which reaches less far by itself than the two '
            "ends together: what is shown holds with the same confidence, at all times, too."
        )
    else:
        shown = ""
    weighted = (
        " Labels weigh by the probability with which they were drawn; ends are rounded outwards to "
        "whole percents."
        if method == "betting"
        else ""
    )
    sure = certificate["confidence"]
    return (
        f"The intervals are confidence sequences: each holds with {percent(sure)}, at all times "
        "together, however often one looks. A wrong verdict of either kind ever falls with a "
        f"probability of at most {percent(1.0 - sure)}.{shown}{weighted}"
    )


def _bets(found: Json) -> parts.Section:
    """Show what each bet has won, beside what it has to win."""
    rows: list[parts.Row] = []
    for name, (meaning, _, good) in BETS.items():
        won, goal = found["log_wealth"][name], found["kept_at" if good else "broken_at"]
        verdict = "certified needs both" if good else "rejected needs one"
        rows.append((meaning, _wealth(won), f"{exp(goal):,.0f}", verdict))
    title = "Bets on what the labels show"
    columns = (
        parts.TableColumn("A bet that"),
        *parts.numbers("Has won", "Has to win"),
        parts.TableColumn("For"),
    )
    text = (
        "Each bet begins with 1 and can grow only by chance where what it is on is not so: to win "
        "w-fold then has a probability of at most 1 in w, at any time. What counts is the most won "
        "so far."
    )
    return parts.section(title, parts.Table(title, columns, rows), parts.note(text))


def _wealth(log_wealth: float) -> str:
    return "> 10^9" if log_wealth > 20.72 else number(exp(log_wealth), 3)


def _course(certificate: Json) -> parts.Section | None:
    found = certificate["sequential"]
    course = found["course"]
    if len(course["labelled"]) < 2:
        return None
    return parts.section(
        "Over the labels",
        parts.Figure(
            "wealth",
            partial(wealth_svg, course, found),
            "What the four bets have won at most (logarithmic). Dotted: what they have to win, "
            "green for certified, red for rejected.",
        ),
        parts.Figure(
            "intervals",
            partial(intervals_svg, course, certificate),
            "Estimates and confidence sequences of both rates. Dashed: what was asked.",
        ),
        where="page",
    )


def _agreement(found: Json) -> parts.Section | None:
    """Show how far two people agree who labelled the same answers."""
    both = found["agreement"]
    if both is None:
        return None
    title = "Two annotators on the same answers"
    agreed, kappa = both["agreed"], both["kappa"]
    said = (
        f"{estimate(kappa)} ({bounds(kappa)})"
        if kappa["estimate"] is not None
        else f"none ({plain(kappa['reason'])})"
    )
    facts = [
        ("Answers", f"{both['n']:,}"),
        ("Same label", f"{share(agreed)} ({interval(agreed)})" if agreed["n"] else "none"),
        ("Cohen's kappa", said),
        ("Either unsure", f"{both['unsure']:,}"),
        ("Disagreements open", f"{both['open']:,}"),
        ("Settled", f"{both['settled']:,}"),
        ("Settled by one of the two", f"{both['settled_by_one_of_them']:,}"),
    ]
    columns = (parts.TableColumn("Measure"), parts.TableColumn("Value", "right"))
    return parts.section(title, parts.Table(title, columns, facts))


def _labels(found: Json) -> parts.Section:
    """Show what was drawn and what became of it."""
    title, labels = "How it was labelled", found["labels"]
    design = found["drawing"]["design"]
    how = {"uniform": "every answer drawn", "active": "by a guess, with known probabilities"}
    facts = [
        ("Drawn", f"{found['n_drawn']:,}"),
        ("Final labels", f"{sum(labels.values()):,}"),
        *((capital(name), f"{labels[name]:,}") for name in ("hallucinated", "faithful", "unsure")),
        ("Skipped", f"{found['n_skipped']:,}"),
        ("Taken back", f"{found['n_undone']:,}"),
        ("Not counted yet", f"{found['held_up']['final']:,}"),
        ("Annotators", f"{len(found['annotators']):,}"),
        ("Drawing", f"{design}: {how[design]}"),
        ("Seed", str(found["seed"])),
    ]
    columns = (parts.TableColumn("What"), parts.TableColumn("", "right"))
    return parts.section(title, parts.Table(title, columns, facts))


#: From so many times the fewest answers on nothing is said: the shares of both classes are unknown.
_PLENTY = 4


def unknown_origin() -> str:
    """Say that nobody can tell whether the traces set the threshold."""
    return say("label.unknown_origin")


def too_few(
    needed: tuple[int, int],
    n: int,
    *,
    floors: tuple[float, float] | None,
    instead: Mapping[str, tuple[int, int]],
) -> Iterator[str]:
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
    total = sum(needed)
    if n >= (total if floors is None else _PLENTY * total):
        return
    labels = ""
    if floors is not None:
        least = sum(ceil(count * floor) for count, floor in zip(needed, floors, strict=True))
        labels = f", of which at least {least:,} are labelled"
    about = "at least" if floors is None else "about"
    text = (
        f'"certified" takes {about} {needed[0]:,} hallucinated and {needed[1]:,} faithful answers '
        f"drawn{labels}, even of a guardrail that makes no error, and these traces hold {n:,}"
    )
    ways = [f"{name} takes {one:,} and {two:,}" for name, (one, two) in instead.items()]
    if ways:
        text += f"; {listed(ways)} (in another folder)"
    yield f"{text}. Labels may well end without a verdict" if n >= total else text


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


#: Chance below which labels made elsewhere do not seem to be those that a lot chose.
_UNLIKELY = 0.05


def doubts(certificate: Json) -> list[str]:
    """Say what is doubtful about the labels that a verdict rests on.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --labels --json`` prints.
    """
    found, texts = certificate["sequential"], []
    if (balance := found["balance"]) is not None and balance["p"] < _UNLIKELY:
        texts.append(
            f"the labels made elsewhere ({balance['labelled']:,}) stand for about "
            f"{balance['estimate']:,.0f} traces by their probabilities, and there are "
            f"{balance['traces']:,}, which chance explains badly (p {p_value(balance['p'])}): see "
            "that no answer that the lot chose was left out, and that the probabilities are its own"
        )
    for name, n in found["lost"].items():
        there = found["annotators"].get(name, 0)
        texts.append(gone(n, f" of {name} ({there:,} are there)"))
    if n := found["n_undone_decided"]:
        texts.append(
            f"{count(n, 'label')} {'was' if n == 1 else 'were'} taken back when a verdict had "
            "fallen: one that falls with other labels in their place is not what was agreed on"
        )
    both = found["agreement"] or {}
    if n := both.get("settled_by_one_of_them"):
        texts.append(
            f"{n:,} of {count(both['settled'], 'disagreement')} {'was' if n == 1 else 'were'} "
            "settled by one of the two who disagreed: let somebody else settle "
            "(--settle --annotator)"
        )
    return texts


#: Lines of the log itself, and what a crash tore: nobody misses them.
_SILENT: Final = ("no_decision", "torn")


def audit_sample_document(content: Json) -> Document:
    """Return what was drawn, from how many answers, and who labels it where.

    Parameters
    ----------
    content : mapping
        What ``calibrail audit-sample --json`` prints.
    """
    days = len(content["days"])
    facts = [
        ("New in the log", count(content["n_rows"], "answer")),
        *(
            (name, f"{content[end][:10]} {content[end][11:16]} UTC")
            for name, end in (("From", "first"), ("Until", "last"))
            if content[end] is not None
        ),
        ("A day", f"{content['per_day']:g} to label"),
        *([("Days counted", f"{days:,}")] if days else []),
        ("Drawn in all", f"{content['n_drawn_so_far']:,} in {_batches(content)}"),
        ("To label in all", f"{content['n_handed_out_so_far']:,}"),
        ("Labelled so far", f"{content['n_labelled']:,}"),
    ]
    return Document(
        "answers to label",
        headline=_headline(content),
        summary=_summary(content),
        blocks=(*(Text(sentence) for sentence in _notes(content)), Facts(facts)),
        next_step=_next_audit_sample(content),
        data={"source": content["folder"], "n": content["n_drawn"]},
    )


def _batches(content: Json) -> str:
    return count(content["n_batches"], "batch", "batches")


def _headline(content: Json) -> str:
    if content["outcome"] == "drawn":
        return f"{count(content['n_handed_out'], 'answer')} to label"
    return "Nothing was drawn"


def _summary(content: Json) -> str:
    if content["outcome"] == "nothing new":
        return "The log holds no new decision of this guardrail."
    if content["outcome"] == "budget spent":
        return (
            f"The log holds {count(content['n_rows'], 'new answer')}, and the budget of their days "
            "is spent: they wait in the log for the next call, which draws from them, too."
        )
    drawn, rows = content["n_drawn"], count(content["n_rows"], "new answer")
    if drawn == content["n_rows"] == content["n_handed_out"]:
        return f"All {rows} are drawn: the log has no more than the days' budget."
    if content["design"] == "active":
        return (
            f"{drawn:,} of {rows} were drawn by lot, each with the same chance; of these "
            f"{content['n_handed_out']:,} are to be labelled, each by a probability that is known."
        )
    return f"They were drawn by lot from {rows}, each with the same chance."


def _notes(content: Json) -> Iterator[str]:
    """Yield what a person should know before labelling."""
    if n := content["n_texts_found"]:
        yield f"Answers drawn before whose texts were found now: {n:,}."
    if n := content["n_without_text"]:
        yield (
            f"Answers to label whose texts are not known: {n:,}. Whoever labels sees their ids; "
            "--traces FILE fills the texts in, and a service keeps them with --log-text."
        )
    if n := content["n_other_texts"]:
        yield (
            f"Answers whose id stands in the traces with texts of another length than was logged, "
            f"so that they are other answers: {n:,}. Their texts were not taken."
        )
    skipped = content["log"]["skipped"]
    said = [
        f"{n:,} {guardrail.skipped(code)}" for code, n in skipped.items() if code not in _SILENT
    ]
    if said:
        yield f"Lines of the log that take no part: {listed(said)}."
    if content["log"]["found"].keys() & {"changed", "gap", "previous", "cut"}:
        yield (
            "Lines of the log were changed or are missing: who may have chosen them has chosen "
            "what is drawn. calibrail log verify says which."
        )


def _next_audit_sample(content: Json) -> str:
    waiting = content["n_labelled"] < content["n_handed_out_so_far"]
    if waiting:
        return f"label them: {shlex.join(['calibrail', 'label', '-o', 'AUDIT'])}"
    if not content["n_labelled"]:
        return "call it again when the log has grown"
    return "see what they show: calibrail monitor GUARDRAIL LOG -o WATCH --labels AUDIT"
