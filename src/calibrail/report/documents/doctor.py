"""Doctor."""

import json
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Final

from calibrail.data.labels import label_key
from calibrail.data.suggested_options import speaks_of_score, words_of
from calibrail.formatting import floor_percent
from calibrail.options import Promise, ReadOptions, Requirement
from calibrail.options.fields import cli_or_python, python_call
from calibrail.report import document as parts
from calibrail.report.document import Json
from calibrail.report.documents.data import export_facts
from calibrail.report.documents.next_steps import without_options
from calibrail.report.messages import environment, say, say_each

#: What asks for it. A policy that removes everything keeps every promise, so that something must be
#: kept.
BY_SENTENCE: Final = "--unit sentence --guarantee marginal --min-kept 0.7"
#: Columns that a page lists, and values of a label.
_LISTED: Final = 200
_VALUES: Final = 8
#: Columns of numbers that are listed, the most telling ones.
_TELLING: Final = 20


def document(diagnosis: Json) -> parts.Document:
    """Return what is in a file and what it supports.

    Parameters
    ----------
    diagnosis : mapping
        What ``calibrail doctor --json`` prints.
    """
    read_as, title = diagnosis["columns"], say("doctor.promise")
    supports = [
        (
            floor_percent(1.0 - item["alpha"]),
            say(f"doctor.guarantee_{item['guarantee']}"),
            f"{item['needed']:,}",
            f"{item['available']:,}",
            "yes" if item["possible"] else say("doctor.to_label", item),
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
    columns = parts.table(
        say("doctor.columns", n_more=max(0, len(looks) - _LISTED)),
        ("Column", "Holds", "Values seen", "Examples", "Read as"),
        looks[:_LISTED],
    )
    answers = {"response", "sentences", "answer_id"} & read_as.keys()
    is_understood = _n_labelled(diagnosis) and (answers or diagnosis["numeric_columns"])
    # Of answers that share a group one counts.
    there_are = "Groups with one" if diagnosis["groups"]["largest"] > 1 else "To calibrate on"
    enough = parts.TableColumn("Enough?", brief="")
    heads = "Catch at least", "Guarantee", "Hallucinated needed", there_are, enough
    marked = parts.Facts(list(_mark_facts(diagnosis)) if diagnosis.get("marks") else ())
    step, *others = _next_steps(diagnosis)
    asks, least = _hindrance(diagnosis) is not None, _lowest_alpha(diagnosis["supports"])
    runs = diagnosis["scores"] or diagnosis["numeric_columns"]
    recipe = parts.Code(_recipe(diagnosis)) if diagnosis["answers"] else None
    return parts.Document(
        "diagnosis of",
        subject=say("doctor.subject", diagnosis),
        headline=say("doctor.heading", diagnosis),
        summary=say("doctor.finding", diagnosis, open=asks, least=least, runs=runs),
        blocks=(
            parts.section("What it holds", parts.Facts(list(_contents(diagnosis)))),
            *(() if is_understood else (parts.section("Columns", columns),)),
            # With one class nothing can be calibrated, however many examples it has.
            parts.tabled(title, heads, supports) if _both_classes(diagnosis) else None,
            parts.section("What can be calibrated", parts.Facts(list(_candidates(diagnosis)))),
            parts.section("What is marked, sentence by sentence", marked),
            parts.section("A row for each answer", recipe),
        ),
        warnings=[parts.Bullet(item["message"]) for item in diagnosis["warnings"]],
        next_step=step,
        alternatives=others,
        ends=False,
    )


def _n_labelled(diagnosis: Json) -> int:
    return int(diagnosis["n_faithful"] + diagnosis["n_hallucinated"])


def _both_classes(diagnosis: Json) -> bool:
    return bool(diagnosis["n_faithful"] and diagnosis["n_hallucinated"])


def _contents(diagnosis: Json) -> Iterator[tuple[str, str]]:
    """Yield what the file holds."""
    reading, filtered = diagnosis["reading"], diagnosis["filtered"]
    # Without a reader of its own, what is left out was left out by an option.
    on_request = not (reading.get("origin") or reading.get("export"))
    yield from say_each({"doctor.rows": True}, diagnosis)
    yield from export_facts(reading.get("export"))
    counts = {
        "doctor.usable": True,
        "doctor.unlabelled": diagnosis["n_unlabelled"],
        "doctor.left_out": filtered and not on_request,
        "doctor.left_out_on_request": filtered and on_request,
        "doctor.quarantined": diagnosis["quarantined"],
    }
    yield from say_each(counts, diagnosis)
    yield from _unusable(diagnosis["reasons"], "")
    columns = {
        "doctor.groups": diagnosis["groups"]["n"],
        "doctor.fields": diagnosis["columns"],
        "doctor.named_as": diagnosis["columns"] and reading.get("named_as"),
        "doctor.unread": diagnosis["unread"],
    }
    yield from say_each(columns, diagnosis)
    if labels := reading["labels"]:
        for name, label in (("hallucinated", 1), ("faithful", 0)):
            seen = [item for item in labels["values"] if item["class"] == label][:_VALUES]
            values = ", ".join(f"{item['value']} ({item['n']:,})" for item in seen)
            yield f"Read as {name}", values or "no label"
    for length in diagnosis["lengths"]:
        if length["n"]:
            yield f"Length of {length['field']}", say("doctor.length", length)


def _unusable(reasons: Sequence[Sequence[object]], name: str) -> Iterator[tuple[str, str]]:
    for field, reason, n in reasons:
        yield name, say("doctor.unusable", field=field, reason=reason, n=n)


def _candidates(diagnosis: Json) -> Iterator[tuple[str, str]]:
    """Yield the scores that can run, and the columns that hold some."""
    yield from say_each({"doctor.scores": True}, diagnosis)
    columns = diagnosis["numeric_columns"]
    telling = sorted(columns, key=lambda item: -abs((item["auroc"] or 0.5) - 0.5))[:_TELLING]
    for item in columns if len(columns) <= _TELLING else telling:
        yield f"Column {item['name']}", say("doctor.column", item, unit="")
    if len(columns) > _TELLING:
        yield "Further columns", say("doctor.few_listed", n=len(columns) - _TELLING)


def _mark_facts(diagnosis: Json) -> Iterator[tuple[str, str]]:
    """Yield what is marked, what cannot be used, and what sentences can be calibrated with."""
    marks = diagnosis["marks"]
    applies = {
        "doctor.spans": marks["kind"] == "spans",
        "doctor.sentences": marks["kind"] == "sentences",
        "doctor.sentence_rows": marks["kind"] == "rows",
        "doctor.marked_answers": marks["n"],
        "doctor.marked_sentences": marks["n"],
        "doctor.in_an_answer": marks["n"],
        "doctor.span_share": marks["kind"] == "spans" and marks["span_share"],
        "doctor.marked": marks["kind"] == "spans",
    }
    yield from say_each(applies, marks)
    if marks["set_aside"] != diagnosis["reasons"]:
        yield from _unusable(marks["set_aside"], "Cannot be used")
    # Of rows that are sentences the columns stand above already.
    listed = {item["name"] for item in diagnosis["numeric_columns"]}
    for item in marks["columns"]:
        if item["name"] not in listed:
            aside = say("doctor.not_for", item) if item["set_aside"] else ""
            yield f"Column {item['name']}", say("doctor.column", item, unit=" by sentence") + aside
    about = {"alpha": _removable_from(marks), "by_sentence": BY_SENTENCE}
    yield from say_each({"doctor.removable": True}, about)


def _removable_from(marks: Json) -> float | None:
    """Return the smallest alpha at which sentences can be removed; None where at none."""
    both = 0 < marks["hallucinated"] < marks["n"]
    return _lowest_alpha(marks["supports"]) if both else None


def _lowest_alpha(supports: Sequence[Json]) -> float | None:
    """Return the smallest tolerated miss rate from 0.05 on that there are answers for."""
    marginal = [item for item in supports if item["guarantee"] == "marginal"]
    alphas = [item["alpha"] for item in marginal if item["possible"] and item["alpha"] >= 0.05]
    return min(alphas, default=None)


def _next_steps(diagnosis: Json) -> list[str]:
    """Return what to do now, and the other ways on where a person must say which."""
    reading = diagnosis["reading"]
    if (hindrance := _hindrance(diagnosis)) is not None:
        if diagnosis["because"] not in ("public", "kinds"):
            return [hindrance]
        return [hindrance, *_if("doctor.if_as_read", _calibrations(diagnosis))]
    steps = _calibrations(diagnosis)
    if diagnosis["inverted"] and reading["turned"]:
        given = without_options(reading["options"], {"--positive=", "--label-map="})
        turned = _command("doctor", diagnosis, *given, *reading["turned"])
        as_read = _if("doctor.look_inverted", steps[:1])
        return [*as_read, *steps[1:], *_if("doctor.if_inverted", [turned])]
    return steps


def _if(code: str, steps: Sequence[str]) -> list[str]:
    return [f"{say(code)}: {step}" for step in steps]


def _calibrations(diagnosis: Json) -> list[str]:
    """Return the commands that calibrate what is there: answers, and sentences where marked."""
    marks, by_sentence = diagnosis.get("marks"), list[str]()
    if marks and (least := _removable_from(marks)) is not None:
        end = (*BY_SENTENCE.split(), "--alpha", f"{least:g}")
        by_sentence = _calibrating(diagnosis, marks["columns"], end)
        if marks["kind"] == "rows":
            # A row that is a sentence is no answer.
            return by_sentence
    if (alpha := _lowest_alpha(diagnosis["supports"])) is None:
        fewest = min(item["to_label"] for item in diagnosis["supports"])
        return by_sentence or [say("doctor.label_more", n=fewest)]
    end = ("--alpha", f"{alpha:g}")
    whole = _calibrating(diagnosis, diagnosis["numeric_columns"], end)
    if not diagnosis["inverted"] and len(whole) == 1:
        whole = [f"{say('doctor.calibrate', diagnosis)}: {whole[0]}"]
    return [*whole, *(f"or, sentence by sentence: {step}" for step in by_sentence)]


def _calibrating(diagnosis: Json, columns: Sequence[Json], end: Sequence[str]) -> list[str]:
    """Return the command for its detector: one that reads all answers, or a column.

    Where names do not say what a higher value means, there are two. These labels, which are to test
    the detector, never choose: of several columns `compare` counts the choice.
    """
    names = [item["name"] for item in diagnosis["scores"] if item["n"] == diagnosis["usable"]]
    columns = [row for row in columns if row["auroc"] is not None and not row["tells_label"]]
    known = [row for row in columns if row["higher"]]
    own = known or [row for row in columns if speaks_of_score(row["name"])]
    # The file's own score goes before one that calibrail computes, and so do a judge's words, of
    # which its confidence does not tell which of both it says.
    sure = all("confidence" in words_of(row["name"]) for row in own)
    if not known and sure and (judge := diagnosis.get("verdict")):
        own = [{**judge, "auroc": None, "distinct": 2}]
        known = own if judge["higher"] else []
    if not own and not (columns and set(names) <= {"length"}):
        named = ["--score", names[0] if names else "NAME"]
        return [_command("calibrate", diagnosis, *diagnosis["reading"]["options"], *named, *end)]
    # Sentences, of which nobody counts values, are not compared: the first column is as good.
    own = own or columns
    rows = [row for row in own if row.get("distinct", 0) > 1] or own[:1]
    what = "calibrate" if len(rows) == 1 else "compare"
    said = {it["name"]: {*map(label_key, it["examples"])} for it in diagnosis["layout"]}
    binary = said.get(rows[0]["name"], {""}) <= {"0", "1", "true", "false"}
    if len(rows) == 1 and (binary or rows[0]["auroc"] is None):
        # A judge that says yes or no has no other threshold to find.
        what, end = "test", ()
    command = partial(_command, what, diagnosis, *diagnosis["reading"]["options"])
    named = [word for row in rows for word in ("--score-column", row["name"])]
    if len({row["higher"] for row in rows}) > 1:
        each = [f"column:column={json.dumps(row['name'])},higher={row['higher']}" for row in rows]
        return [command(*(word for item in each for word in ("--score", item)), *end)]
    if known:
        return [command(*named, "--higher", rows[0]["higher"], *end)]
    about = {"columns": [row["name"] for row in rows], "auroc": rows[0]["auroc"]}
    return [
        f"{say(f'doctor.if_{higher}', about)}: {command(*named, '--higher', higher, *end)}"
        for higher in ("hallucinated", "faithful")
    ]


def _command(name: str, diagnosis: Json, *words: str) -> str:
    """Return a command or a call on the data, or on what stands for it where it was in memory."""
    inputs = diagnosis["inputs"]
    if not cli_or_python("typed", ""):
        source = repr(inputs[0] if len(inputs) == 1 else list(inputs)) if inputs else "data"
        return _call(name, source, list(words))
    to = {"label": ("-o", "labels"), "doctor": ()}.get(name, ("-o", "run"))
    return shlex.join(["calibrail", name, *(inputs or ["DATA"]), *words, *to])


def _call(name: str, source: str, words: list[str]) -> str:
    """Return what a command of doctor's advice is in Python."""
    if name == "doctor":
        return python_call("diagnose", source, words, ReadOptions)
    if name == "label":
        return python_call(name, f'{source}, "labels"', words, ReadOptions)
    taken: dict[str, list[str]] = {"--score": [], "--score-column": [], "--higher": []}
    rest, given = list[str](), iter(words)
    for word in given:
        if word in taken:
            taken[word].append(next(given))
        else:
            rest.append(word)
    scores = taken["--score"] + [
        f"column:column={json.dumps(column)},higher={taken['--higher'][0]}"
        for column in taken["--score-column"]
    ]
    score = repr(scores[0] if len(scores) == 1 else scores)
    return python_call(name, f"{source}, {score}", rest, ReadOptions, Promise, Requirement)


def _hindrance(diagnosis: Json) -> str | None:
    """Return what is to be done before anything can be calibrated; None where nothing is."""
    reading = diagnosis["reading"]
    if diagnosis["answers"]:
        written = _written(diagnosis)
        return f"{say('doctor.row_each', diagnosis)}: {_command('doctor', {'inputs': [written]})}"
    if diagnosis["suggested"]:
        command = _command("doctor", diagnosis, *diagnosis["suggested"])
        # What a person must check of options that are a guess.
        if because := diagnosis["because"]:
            return f"{say(f'doctor.check_{because}', diagnosis)}: {command}"
        return command
    export, columns = reading.get("export"), diagnosis["columns"]
    spoken = export["annotations"] if export else "label" in columns or "response" not in columns
    if not spoken and not _n_labelled(diagnosis):
        return f"{say('doctor.nobody_spoke')}: {_command('label', diagnosis)}"
    return None if _both_classes(diagnosis) else say("doctor.one_class")


def _written(diagnosis: Json) -> str:
    """Return the file that the lines of Python write."""
    return f"{Path((diagnosis['inputs'] or ['data'])[0]).name.partition('.')[0]}-rows.jsonl"


def _recipe(diagnosis: Json) -> str:
    """Return the lines that write a row for each answer of a row, with its label and its group."""
    inputs = diagnosis["inputs"]
    source = repr(inputs[0] if len(inputs) == 1 else inputs) if inputs else "DATA"
    lines = files("calibrail.report").joinpath("templates/rows.py.j2").read_text("utf-8")
    words = dict(pairwise(diagnosis["suggested"] or diagnosis["reading"]["options"]))
    mapping = dict(pair.split("=", 1) for pair in words.get("--map", "").split(",") if pair)
    names = {"source": source, "written": _written(diagnosis), "mapping": mapping}
    return environment().from_string(lines).render({**diagnosis, **names})
