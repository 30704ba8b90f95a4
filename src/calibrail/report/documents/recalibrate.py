"""Recalibrate."""

from datetime import UTC, datetime

from calibrail.formatting import Scale, floor_percent
from calibrail.report import document as parts
from calibrail.report.documents import measures
from calibrail.report.documents.calibrate_sections import sure
from calibrail.report.documents.guardrail import skipped
from calibrail.report.messages import facts, remarks, say, say_first
from calibrail.report.text import count_of, interval, plain, share_cell


def document(content: parts.Json) -> parts.Document:
    """Return the verdict, both thresholds on the same answers, what rests on what, the next step.

    Parameters
    ----------
    content : mapping
        What ``calibrail recalibrate --json`` prints.
    """
    scale, verdict, labels = Scale.of(content["score"]), content["verdict"], content["labels"]
    new, log = content["comparison"]["new"], content["log"]
    limits = {name: content[name] for name in ("min_coverage", "max_fpr")}
    first, last = (
        None if labels[end] is None else f"{datetime.fromtimestamp(labels[end], UTC):%Y-%m-%d}"
        for end in ("from", "to")
    )
    warnings = [*remarks("recalibrate.warnings", content), *map(plain, labels["problems"])]
    warnings += [
        say("recalibrate.line_left_out", n=n, why=skipped(code))
        for code, n in (log["skipped"] if log else {}).items()
        if code != "no_decision"
    ]
    return parts.Document(
        "recalibration of",
        subject=scale.column or str(content["score"]["name"]),
        headline=verdict.capitalize(),
        verdict=verdict,
        summary=reason(content),
        tiles=tuple(measures.tiles(measures.rates(new, limits))),
        blocks=(
            parts.Text(say("recalibrate.threshold", content, scale=scale, sure=_sure(content))),
            _same_answers(content, scale),
            _changed(content["comparison"], scale),
            parts.section("On everything that was logged", parts.Text(_logged(log) if log else "")),
            parts.section(
                "What it rests on",
                parts.Facts(facts("recalibrate.facts", content, first=first, last=last)),
            ),
            parts.Bullets("What is assumed", remarks("recalibrate.assumed", content)),
        ),
        warnings=[parts.Bullet(text) for text in warnings],
        next_step=say_first(
            {
                "recalibrate.accept_more": verdict == "rejected",
                "recalibrate.label_more": verdict != "certified",
                "recalibrate.put_to_use": True,
            }
        ),
    )


def _sure(content: parts.Json) -> str:
    """Return the confidence in the new threshold: that of the verdict where there is a limit."""
    asked = {"max_fpr": content["max_fpr"], "confidence": content["level"]}
    return floor_percent(sure({"promise": content["promise"], "requirement": asked}))


def _logged(log: parts.Json) -> str:
    """Say how much of the log either threshold flags."""
    return say(
        "recalibrate.logged", log=log, before=log["old"] / log["n"], after=log["new"] / log["n"]
    )


def reason(content: parts.Json) -> str:
    """Return why the verdict is what it is, in a sentence or two."""
    return say(
        f"recalibrate.{content['reason']}",
        content,
        promised=floor_percent(1.0 - content["promise"]["alpha"]),
        sure=_sure(content),
        seen=say("recalibrate.seen", content),
    )


def _same_answers(content: parts.Json, scale: Scale) -> parts.Section:
    """Show both thresholds on the audited answers."""
    rows: list[parts.Row] = []
    for name, key in (("so far", "old"), ("new", "new")):
        rates = (content["comparison"][key][rate] for rate in ("coverage", "fpr"))
        cells = [cell for rate in rates for cell in (share_cell(rate), count_of(rate))]
        rows.append((name, scale.cell(content["threshold"][key]), *cells))
    numbers = (">Threshold", ">Caught", ">of hallucinated", ">False alarms", ">of faithful")
    same = parts.Text(say("recalibrate.same_answers", content))
    return parts.tabled("On the same audited answers", ("Guardrail", *numbers), rows, same)


def _changed(sides: parts.Json, scale: Scale) -> parts.Section:
    """Show which answers the new threshold decides otherwise about."""
    code, named, table = f"recalibrate.flags_{sides['new_flags']}", "", None
    if sides["new_flags"] != "same":
        named = " and ".join(
            f"{count_of(sides['changed'][rate])} ({interval(sides['changed'][rate])}) {label}"
            for rate, label in (("coverage", "hallucinated"), ("fpr", "faithful"))
        )
        rows: list[parts.Row] = [
            (
                plain(item["id"]),
                name,
                scale.text(item["score"]),
                "flagged" if item["flagged"] else "passes",
            )
            for name in ("hallucinated", "faithful")
            for item in sides["answers"][name]
        ]
        title, heads = "Answers that change", ("Answer", "Label", ">Score", "Now")
        table = parts.folded(title, parts.table(title, heads, rows))
    return parts.section("What changes", parts.Text(say(code, changed=named)), table)
