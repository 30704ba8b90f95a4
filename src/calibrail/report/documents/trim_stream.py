"""What have readers seen of an answer that is stopped while it is being written, in words?"""

from typing import Final

from calibrail.phrases import count
from calibrail.report.blocks import Json, Section, Text, section
from calibrail.report.documents import measures
from calibrail.report.documents.unit_words import by_sentence
from calibrail.report.phrases import bounds, estimate, plain

_STOPPED: Final = {
    "before": "Stopped before the first unsupported sentence",
    "at": "Stopped right at it",
    "after": "Stopped after it: something unsupported was shown",
    "never": "Never stopped",
}


_WHY: Final = {
    True: "A stream may stop at the first sentence that reaches the threshold, in place of "
    "removing sentences at the end. It stops the very answers that lose a sentence, since no score "
    "depends on what follows; what was written before the stop has been read.",
    False: "A stream stops at the first sentence that reaches the threshold, and so the very "
    "answers that are not passed, since no score depends on what follows; what was written before "
    "the stop has been read. Which sentences are unsupported is as the data marks it, and has no "
    "part in the threshold or in the verdict.",
}


def stopped_streams(report: Json) -> Section | None:
    """Show where answers are stopped under the same threshold, and what was shown by then.

    Parameters
    ----------
    report : mapping
        ``Report.to_dict()``; its ``sentences`` are None, or lack the measures, where nobody marked
        what is unsupported.
    """
    sentences, title = report.get("sentences") or {}, "While the answer is being written"
    if why := sentences.get("reason"):
        return section(title, Text(f"Not measured: {why}."), where="page")
    if (stream := sentences.get("stream")) is None:
        return None
    lines = [
        measures.share_line(name, stream["stopped"][key], about=" hallucinated")
        for key, name in _STOPPED.items()
    ]
    lines += [
        measures.share_line("Faithful answers stopped", stream["cut"], about=" faithful"),
        _mean("Sentences from the first unsupported one to the stop", stream["delay"]),
        _mean("Unsupported words shown, per hallucinated answer", stream["words_shown"]),
        _mean("Unsupported words written, per hallucinated answer", stream["words"]),
    ]
    return section(
        title,
        Text(_WHY[by_sentence(report)]),
        measures.table(title, lines, report["confidence"]),
        Text(_left_out(sentences)),
        where="page",
    )


def _left_out(sentences: Json) -> str:
    """Say how many test answers are not measured here, though the verdict counts them."""
    if not (n := sentences.get("n_left_out", 0)):
        return ""
    answers = count(n, "test answer is", "test answers are")
    return (
        f"{answers} left out of this table alone: nobody marked what is unsupported, or the marks "
        "contradict the label."
    )


def _mean(name: str, value: Json) -> measures.Line:
    if value["estimate"] is None:
        return name, "none", "", "", plain(value["reason"])
    return name, estimate(value, 2), bounds(value, 2), "", "mean"
