"""What have readers seen of an answer that is stopped while it is being written, in words?"""

from typing import Final

from calibrail.report.blocks import Json, Section, Text, section
from calibrail.report.documents import measures
from calibrail.report.phrases import bounds, estimate, plain

_STOPPED: Final = {
    "before": "Stopped before the first unsupported sentence",
    "at": "Stopped right at it",
    "after": "Stopped after it: something unsupported was shown",
    "never": "Never stopped",
}


def stopped_streams(stream: Json | None, confidence: float) -> Section | None:
    """Show where answers are stopped under the same threshold, and what was shown by then.

    Parameters
    ----------
    stream : mapping or None
        ``sentences.stream`` of a report.
    confidence : float
        Level of the intervals.
    """
    if stream is None:
        return None
    title = "While the answer is being written"
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
        Text(
            "A stream may stop at the first sentence that reaches the threshold, in place of "
            "removing sentences at the end. It stops the very answers that lose a sentence, since "
            "no score depends on what follows; what was written before the stop has been read."
        ),
        measures.table(title, lines, confidence),
        where="page",
    )


def _mean(name: str, value: Json) -> measures.Line:
    if value["estimate"] is None:
        return name, "none", "", "", plain(value["reason"])
    return name, estimate(value, 2), bounds(value, 2), "", "mean"
