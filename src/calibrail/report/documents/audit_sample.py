"""What does `calibrail audit-sample` say about the answers that it drew?"""

import shlex
from collections.abc import Iterator
from typing import Final

from calibrail.phrases import count, listed
from calibrail.report.blocks import Facts, Json, Text
from calibrail.report.document import Document
from calibrail.report.documents import log

#: Lines of the log itself, and what a crash tore: nobody misses them.
_SILENT: Final = ("no_decision", "torn")


def document(content: Json) -> Document:
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
        next_step=_next(content),
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
    said = [f"{n:,} {log.skipped(code)}" for code, n in skipped.items() if code not in _SILENT]
    if said:
        yield f"Lines of the log that take no part: {listed(said)}."
    if content["log"]["found"].keys() & {"changed", "gap", "previous", "cut"}:
        yield (
            "Lines of the log were changed or are missing: who may have chosen them has chosen "
            "what is drawn. calibrail log verify says which."
        )


def _next(content: Json) -> str:
    waiting = content["n_labelled"] < content["n_handed_out_so_far"]
    if waiting:
        return f"label them: {shlex.join(['calibrail', 'label', '-o', 'AUDIT'])}"
    if not content["n_labelled"]:
        return "call it again when the log has grown"
    return "see what they show: calibrail monitor GUARDRAIL LOG -o WATCH --labels AUDIT"
