"""Doctor."""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from calibrail.formatting import count, percent
from calibrail.report.document import (
    Bullet,
    Document,
    Facts,
    Json,
    Table,
    TableColumn,
    section,
    texts,
)
from calibrail.report.documents.data import export_facts
from calibrail.report.text import plain


def calibrating(diagnosis: Json, columns: Sequence[Json]) -> str:
    """Return the command up to its detector: one that reads all answers, or the best column.

    Parameters
    ----------
    diagnosis : mapping
        What ``calibrail doctor --json`` prints.
    columns : sequence of mapping
        The columns that hold scores.
    """
    names = [item["name"] for item in diagnosis["scores"] if item["n"] == diagnosis["usable"]]
    columns = [row for row in columns if row["auroc"] is not None and not row["tells_label"]]
    score = f"--score {names[0] if names else 'NAME'}"
    if columns and set(names) <= {"length"}:
        best = max(columns, key=lambda column: abs(column["auroc"] - 0.5))
        score = f"--score-column {shlex.quote(best['name'])} --higher {higher(best['auroc'])}"
    source = shlex.join([*named(diagnosis), *diagnosis["reading"]["options"]])
    return f"calibrail calibrate {source} {score}"


def what_column_does(column: Json, unit: str = "") -> str:
    """Return how well a column that holds numbers tells hallucinations apart."""
    area, detail = column["auroc"], "no AUROC without both classes"
    if column["tells_label"]:
        detail = f"no detector's score: AUROC{unit} {area:.0f}, probably made from the label"
    elif area is not None:
        detail = f"AUROC{unit} {max(area, 1 - area):.3f} with --higher {higher(area)}"
    return detail + (f", {column['missing']:,} missing" if column["missing"] else "")


def lowest_alpha(supports: Sequence[Json]) -> float | None:
    """Return the smallest tolerated miss rate from 0.05 on that there are answers for."""
    marginal = [item for item in supports if item["guarantee"] == "marginal"]
    alphas = [item["alpha"] for item in marginal if item["possible"] and item["alpha"] >= 0.05]
    return min(alphas, default=None)


def named(diagnosis: Json) -> Sequence[str]:
    """Return the names of the data, or what stands for them where it was in memory."""
    return diagnosis["inputs"] or ["DATA"]


def higher(auroc: float) -> str:
    """Return the class whose answers have the higher values."""
    return "hallucinated" if auroc >= 0.5 else "faithful"


MARKED: Final = "What is marked, sentence by sentence"

_KINDS: Final = {
    "spans": "marked spans",
    "sentences": "sentences with a label each",
    "rows": "a row for each sentence, gathered to answers",
}

#: What asks for it. A policy that removes everything keeps every promise, so that something must be
#: kept.
BY_SENTENCE: Final = "--unit sentence --min-kept 0.7"


def mark_facts(diagnosis: Json) -> Iterator[tuple[str, str]]:
    """Yield what is marked, what cannot be used, and what sentences can be calibrated with."""
    marks = diagnosis["marks"]
    yield "Marks", _KINDS[marks["kind"]]
    if marks["n"]:
        yield (
            "Answers",
            f"{marks['n']:,}: {marks['hallucinated']:,} hold an unsupported sentence",
        )
        share = percent(marks["unsupported"] / max(1, marks["sentences"]))
        yield (
            "Sentences",
            f"{marks['sentences']:,}: {marks['unsupported']:,} unsupported ({share})",
        )
        middle, high = f"{marks['median_sentences']:,.0f}", f"{marks['p95_sentences']:,.0f}"
        yield "Sentences an answer", f"{middle} (median), {high} at the 95th percentile"
    if marks["kind"] == "spans":
        if marks["span_share"]:
            cover = f"spans cover {percent(marks['span_share'])} of it or more"
            yield "A sentence is unsupported where", cover
        outside = marks["outside_chars"]
        rest = f", {outside:,} of them in no sentence" if outside else ""
        yield "Marked", f"{count(marks['marked_chars'], 'character')} without white space{rest}"
    same = marks["set_aside"] == diagnosis["reasons"]
    for field, reason, n in () if same else marks["set_aside"]:
        yield "Cannot be used", f"{n:,} x {field}: {reason}"
    # Of rows that are sentences the columns stand above already.
    listed = {item["name"] for item in diagnosis["numeric_columns"]}
    for item in marks["columns"]:
        if item["name"] not in listed:
            detail = what_column_does(item, " by sentence")
            if aside := item["set_aside"]:
                detail += f"; not for {count(aside, 'answer')}: not one number for each sentence"
            yield f"Column {item['name']}", detail
    alpha = removable_from(marks)
    if alpha is None:
        yield "Sentences can be removed", "not yet: there are too few answers of either class"
    else:
        command = f"add {BY_SENTENCE} to calibrail calibrate"
        yield "Sentences can be removed", f"from --alpha {alpha:g} on: {command}"


def calibrating_sentences(diagnosis: Json) -> str | None:
    """Return the command that removes sentences; None where they cannot be removed."""
    marks = diagnosis.get("marks")
    if not marks or (alpha := removable_from(marks)) is None:
        return None
    return f"{calibrating(diagnosis, marks['columns'])} {BY_SENTENCE} --alpha {alpha:g} -o run"


def removable_from(marks: Json) -> float | None:
    """Return the smallest alpha at which sentences can be removed; None where at none."""
    both = 0 < marks["hallucinated"] < marks["n"]
    return lowest_alpha(marks["supports"]) if both else None


#: Columns that a page lists, and values of a label.
_LISTED: Final = 200
_VALUES: Final = 8
#: Columns of numbers that are listed, the most telling ones.
_TELLING: Final = 20


def document(diagnosis: Json) -> Document:
    """Return what is in a file and what it supports.

    Parameters
    ----------
    diagnosis : mapping
        What ``calibrail doctor --json`` prints.
    """
    read_as = diagnosis["columns"]
    title = "Can a threshold keep its promise at the default split?"
    supports = [
        (
            percent(1.0 - item["alpha"]),
            item["guarantee"],
            f"{item['needed']:,}",
            f"{item['available']:,}",
            "yes" if item["possible"] else "too few",
        )
        for item in diagnosis["supports"]
    ]
    looks = [
        (
            item["name"],
            item["kind"],
            f"{item['n']:,}",
            " | ".join(item["examples"]),
            ", ".join(field for field, column in read_as.items() if column == item["name"]),
        )
        for item in diagnosis["layout"]
    ]
    n_more = max(0, len(looks) - _LISTED)
    columns = Table(
        "Columns" + (f" (and {n_more:,} more, in the JSON)" if n_more else ""),
        texts("Column", "Holds", "Values seen", "Examples", "Read as"),
        looks[:_LISTED],
    )
    step, *others = _next_steps(diagnosis)
    is_understood = _n_labelled(diagnosis) and (
        "response" in read_as or diagnosis["numeric_columns"]
    )
    # Of answers that share a group one counts.
    there_are = "Groups with one" if diagnosis["groups"]["largest"] > 1 else "There are"
    heads = texts("Catch at least", "Guarantee", "Hallucinated needed", there_are)
    return Document(
        "diagnosis of",
        subject=f"{plain(diagnosis['source'])}, {count(diagnosis['usable'], 'answer')}",
        headline=f"{diagnosis['source']} ({diagnosis['format']})",
        blocks=(
            section("What it holds", Facts(list(_contents(diagnosis)))),
            *(() if is_understood else (section("Columns", columns),)),
            # With one class nothing can be calibrated, however many examples it has.
            section(title, Table(title, (*heads, TableColumn("Enough?", brief="")), supports))
            if _both_classes(diagnosis)
            else None,
            section("What can be calibrated", Facts(list(_candidates(diagnosis)))),
            section(MARKED, Facts(list(mark_facts(diagnosis)))) if diagnosis.get("marks") else None,
        ),
        warnings=[Bullet(item["message"]) for item in diagnosis["warnings"]],
        next_step=step,
        alternative=others[0] if others else "",
    )


def _n_labelled(diagnosis: Json) -> int:
    return int(diagnosis["n_faithful"] + diagnosis["n_hallucinated"])


def _both_classes(diagnosis: Json) -> bool:
    return bool(diagnosis["n_faithful"] and diagnosis["n_hallucinated"])


def _next_steps(diagnosis: Json) -> list[str]:
    """Return what to do now, and the other way on where sentences are marked."""
    if (hindrance := _hindrance(diagnosis)) is not None:
        return [hindrance]
    by_sentence = calibrating_sentences(diagnosis)
    if by_sentence is not None and diagnosis["marks"]["kind"] == "rows":
        # A row that is a sentence is no answer.
        return [by_sentence]
    if (alpha := lowest_alpha(diagnosis["supports"])) is None:
        few = "Label more hallucinated examples: there are too few for any alpha listed here."
        return [by_sentence or few]
    whole = f"{calibrating(diagnosis, diagnosis['numeric_columns'])} --alpha {alpha:g} -o run"
    return [whole, f"or, sentence by sentence: {by_sentence}"] if by_sentence else [whole]


def _hindrance(diagnosis: Json) -> str | None:
    """Return what is to be done before anything can be calibrated; None where nothing is."""
    if diagnosis["suggested"]:
        words = ["calibrail", "doctor", *named(diagnosis), *diagnosis["suggested"]]
        return shlex.join(words) + _to_check(diagnosis["suggested"])
    if diagnosis["inverted"] and (turned := diagnosis["reading"]["turned"]):
        given = _without(diagnosis["reading"]["options"], "--positive", "--label-map")
        words = ["calibrail", "doctor", *named(diagnosis), *given, *turned]
        return f"{shlex.join(words)}  (if the labels are inverted)"
    export = diagnosis["reading"].get("export")
    if export and not export["annotations"] and not _n_labelled(diagnosis):
        command = shlex.join(["calibrail", "label", *named(diagnosis), "-o", "labels"])
        return f"{command}  (no person said anything of these answers yet)"
    if not _both_classes(diagnosis):
        return "Both classes need labelled examples before anything can be calibrated."
    return None


def _without(words: Sequence[str], *options: str) -> list[str]:
    """Return the words of a command line without some options and their values."""
    values = {i + 1 for i, word in enumerate(words) if word in options}
    return [word for i, word in enumerate(words) if i not in values and word not in options]


def _to_check(suggested: Sequence[str]) -> str:
    """Say what a person must check of options that are a guess."""
    if "--positive" in suggested:
        value = suggested[suggested.index("--positive") + 1]
        return f"  (if {value} is what means hallucinated; else name the other label)"
    if any("=?" in word for word in suggested):
        return "  (put 1 for hallucinated, 0 for faithful or skip in place of each ?)"
    return ""


def _contents(diagnosis: Json) -> Iterator[tuple[str, str]]:
    """Yield what the file holds."""
    hallucinated, faithful = diagnosis["n_hallucinated"], diagnosis["n_faithful"]
    labels = f"{hallucinated:,} hallucinated, {faithful:,} faithful"
    yield "Rows read", f"{diagnosis['rows']:,}"
    yield from export_facts(diagnosis["reading"].get("export"))
    yield "Usable examples", f"{diagnosis['usable']:,}: {labels}"
    for key, name in (
        ("n_unlabelled", "Without a label"),
        (
            "filtered",
            "Left out on request" if _on_request(diagnosis["reading"]) else "Left out",
        ),
        ("quarantined", "Cannot be used"),
    ):
        if diagnosis[key]:
            yield name, f"{diagnosis[key]:,}"
    for field, reason, n in diagnosis["reasons"]:
        yield "", f"{n:,} x {field}: {reason}"
    if (groups := diagnosis["groups"])["n"]:
        largest = count(groups["largest"], "example")
        mixed = f", {groups['mixed']:,} with both classes" if groups["mixed"] else ""
        yield "Groups", f"{groups['n']:,}, the largest with {largest}{mixed}"
    if columns := diagnosis["columns"]:
        named = (k if k == v else f"{k} from {v}" for k, v in columns.items())
        yield "Fields found", ", ".join(named)
        if tools := diagnosis["reading"].get("named_as"):
            yield "Named as by", " or ".join(tools)
    if labels := diagnosis["reading"]["labels"]:
        for name, label in (("hallucinated", 1), ("faithful", 0)):
            seen = [item for item in labels["values"] if item["class"] == label][:_VALUES]
            values = ", ".join(f"{item['value']} ({item['n']:,})" for item in seen)
            yield f"Read as {name}", values or "no label"
    for length in diagnosis["lengths"]:
        if length["n"]:
            middle, high = f"{length['median_chars']:,.0f}", f"{length['p95_chars']:,.0f}"
            text = f"{middle} characters (median), {high} at the 95th percentile"
            yield f"Length of {length['field']}", text


def _on_request(reading: Json) -> bool:
    """Say whether what is left out was left out by an option, not by the reader itself."""
    return not (reading.get("origin") or reading.get("export"))


def _candidates(diagnosis: Json) -> Iterator[tuple[str, str]]:
    """Yield the scores that can run, and the columns that hold some."""
    names = ", ".join(f"{row['name']} ({row['n']:,})" for row in diagnosis["scores"] if row["n"])
    yield "Scores that can run", names or "none: no texts were found"
    columns = diagnosis["numeric_columns"]
    telling = sorted(columns, key=lambda item: -abs((item["auroc"] or 0.5) - 0.5))[:_TELLING]
    for item in columns if len(columns) <= _TELLING else telling:
        yield f"Column {item['name']}", what_column_does(item)
    if len(columns) > _TELLING:
        rest = f"{len(columns) - _TELLING:,} more hold numbers and separate the classes less"
        yield "Further columns", f"{rest}; --json lists all"
