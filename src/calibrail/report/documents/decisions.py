"""Check, score, select."""

from typing import Final

from calibrail.formatting import count, listed, number, percent, upper_percent
from calibrail.report import document as parts
from calibrail.report.document import Document, Facts, Json, TableColumn, Text, Tile, table, tabled
from calibrail.report.documents.measures import part_note
from calibrail.report.messages import facts, remarks, say, say_each, say_first, word


def check_document(content: Json) -> Document:
    """Return how many answers had which outcome.

    Parameters
    ----------
    content : mapping
        What ``calibrail check --json`` prints.
    """
    total, outcomes, trimmed = content["checked"], content["outcomes"], content.get("trimmed")
    failed, flagged = outcomes.get("error", 0), outcomes.get("flag", 0)
    if trimmed is not None:
        # Of the flagged ones, those that were trimmed are told apart.
        results = {**outcomes, **trimmed, "flag": flagged - sum(trimmed.values())}
        outcomes = {name: n for name, n in results.items() if n}
    rows = [
        (said, f"{outcomes[name]:,}", percent(outcomes[name] / total))
        for name, said in facts("decisions.outcomes")
        if name in outcomes
    ]
    shares = listed([f"{n} {said} ({share})" for said, n, share in rows])
    left = [f"{reason} ({n:,})" for reason, n in content.get("left_out", {}).items()]
    heads = "Outcome", ">Answers", ">Share"
    return Document(
        "decisions",
        headline=f"{count(total, 'answer')}: {shares}" if rows else "no answers",
        warnings=[parts.Bullet(say("decisions.beyond", content))] if "beyond" in content else [],
        blocks=(table("Outcomes", heads, rows, where="page"),),
        notes=(
            *part_note(content.get("part")),
            *([say("decisions.left_out", reasons=left)] if left else ()),
        ),
        next_step=say_first(
            {
                "decisions.mend": outcomes.get("error") == total,
                "decisions.all_emptied": outcomes.get("emptied") == total - failed,
                "decisions.read_removed": trimmed is not None,
                "decisions.none_passes": flagged + failed == total > 1 and "beyond" not in content,
                "decisions.label_some": True,
            },
            open="goal" in content,
            limit=content.get("max_false_alarms"),
            states_more=content.get("states_more"),
        ),
        data={"source": content["source"], "n": total},
        footer="The decision about each answer stands in the file that was written.",
    )


def score_document(content: Json) -> Document:
    """Return how many answers each score is undefined for, and what it cost.

    Parameters
    ----------
    content : mapping
        What ``calibrail score --json`` prints.
    """
    examples = count(content["examples"], "answer")
    scores = [(name, f"{examples}, {n:,} undefined") for name, n in content["undefined"].items()]
    return Document(
        "scores",
        headline=f"{examples} scored",
        blocks=(Facts(scores),),
        notes=part_note(content.get("part")),
        data={"source": content["source"], "n": content["examples"]},
        footer="The scores stand in the file that was written.",
    )


#: Share of the released answers up to which another number of them is about the same.
_ALIKE: Final = 0.01


def select_document(selection: Json, *, is_written: bool = True) -> Document:
    """Return what is released, what that promises, and the bounds of other cut-offs.

    Parameters
    ----------
    selection : mapping
        What ``calibrail select --json`` prints.
    is_written : bool
        Whether a file says which answers they are.
    """
    answers, released = count(selection["n"], "answer"), selection["n_released"]
    too_few = selection["n_calibration"] < selection["n_calibration_for_one"]
    rows = [
        (
            number(row["cutoff"]),
            f"{row['released']:,}",
            f"{row['most_hallucinated']:,}",
            "none" if row["share"] is None else upper_percent(row["share"]),
            "chosen" if row["chosen"] else "",
        )
        for row in selection["table"]
        # What releases nearly as many would stand there twice.
        if row["chosen"] or not released or abs(row["released"] - released) > _ALIKE * released
    ]
    choice = TableColumn("Choice", brief="")
    heads = ">p-value up to", ">Released", ">Hallucinated at most", ">Share at most", choice
    methods = "Method", ">Share assumed", ">Released", ">Hallucinated at most", choice
    by_method = [_method(row) for row in selection["methods"]]
    chosen = next((row for row in selection["table"] if row["chosen"]), {"share": None})
    bounds = "decisions.bounds_grouped" if selection["n_grouped"] else "decisions.bounds"
    lead = {
        "decisions.promise": released,
        "decisions.nothing_released": not released,
        "decisions.held_back": released < selection["n"],
    }
    return Document(
        "selection from",
        subject=answers,
        headline=say("decisions.may_be_released", selection),
        summary=" ".join(text for _, text in say_each(lead, selection, chosen)),
        tiles=[Tile(*tile) for tile in facts("decisions.tiles", selection, chosen)],
        blocks=(
            tabled(
                "Other choices",
                heads,
                rows,
                Text(say(bounds, selection)),
                Text(_details(selection) if released else ""),
            ),
            tabled("Other methods", methods, by_method, Text(say("decisions.methods", selection))),
        ),
        notes=[*part_note(selection.get("part")), *remarks("decisions.notes", selection)],
        next_step=say_first(
            {
                "decisions.release": released and is_written,
                "decisions.write_down": released,
                "decisions.calibrate_on_more": too_few,
                "decisions.use_better": True,
            },
            selection,
        ),
        data={"source": selection.get("source")},
    )


def _method(row: Json) -> tuple[str, ...]:
    """Return a method's row: what it reckons with, and what it would release."""
    if row["obstacle"] is not None:
        return row["method"], "none", "none", "none", word("decisions.obstacles", row["obstacle"])
    return (
        row["method"],
        upper_percent(min(1.0, row["share"])),
        f"{row['released']:,}",
        f"{row['most_hallucinated']:,}",
        "chosen" if row["chosen"] else "",
    )


def _details(selection: Json) -> str:
    """Say which answers are released, by which method, and what its average is over."""
    method = selection["method"].replace("-", "_")
    scored = selection["n"] - selection["n_undefined"] - selection["n_errors"]
    every = selection["share"] <= selection["fdr"] and selection["n_released"] == scored
    applies = {
        f"decisions.released_{'all' if every else 'some'}": True,
        f"decisions.average_{method}": True,
        "decisions.alike": selection["n_grouped"] and method != "storey",
    }
    reckoned = upper_percent(min(1.0, selection["share"]))
    return " ".join(text for _, text in say_each(applies, selection, reckoned=reckoned))
