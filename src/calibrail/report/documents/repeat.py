"""Document of repeat."""

from calibrail.formatting import Scale, floor_percent
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Document, Json
from calibrail.report.documents.measures import part_note
from calibrail.report.messages import facts, remarks, say, say_first, word


def document(content: Json) -> Document:
    """Return how stable the replies are, what a vote brings, and whether the judge has changed.

    Parameters
    ----------
    content : mapping
        The content of ``repeat.json``.
    """
    data, anchors = content["data"], content["anchors"] or {}
    compared = remarks("repeat.anchors", anchors, level=content["confidence"]) if anchors else ()
    cases = {
        "repeat.calibrate_again": anchors.get("changed"),
        "repeat.label": content["threshold"] is None,
        "repeat.certify": True,
    }
    return Document(
        "repeats of",
        subject=text.score_name(content),
        headline=content["finding"],
        blocks=(
            _stability(content),
            _voting(content),
            parts.listing("Compared with the anchors", compared),
        ),
        warnings=[parts.Bullet(item) for item in remarks("repeat.warnings", data, content)],
        notes=[*remarks("repeat.notes", data), *part_note(data["part"])],
        next_step=say_first(cases),
        reproduce=content["reproduce"],
        data=data,
        footer="Every number on this page is in repeat.json.",
    )


def finding(content: Json) -> str:
    """Return what it comes to, in a sentence."""
    anchors, kind = content["anchors"] or {}, "decisions" if content["decisions"] else "scores"
    stable = content[kind]["answers"]["estimate"] == 0.0
    cases = {
        "repeat.renamed": anchors.get("renamed"),
        "repeat.changed": anchors.get("changed"),
        "repeat.same": stable and not content["asks"],
        "repeat.stable": stable,
        "repeat.flips": True,
    }
    return say_first(cases, content, content[kind], what=kind, anchor=anchors)


def _stability(content: Json) -> parts.Section:
    """Show of how many answers decisions and scores differ."""
    rows: list[parts.Row] = []
    for kind in ("decisions", "scores"):
        for unit, measure in (content[kind] or {}).items():
            whole = measure["method"] == "clopper-pearson"
            counts = text.count_of(measure) if whole else f"mean of {measure['n']:,}"
            name = word(f"repeat.{kind}", unit)
            rows.append((name, text.share(measure), text.interval(measure), counts))
    level, title = floor_percent(content["confidence"]), f"Judged {content['times']} times"
    heads = (parts.TableColumn("What differs"), *parts.numbers("Share"))
    columns = (*heads, *parts.texts(f"{level} interval", "Counts"))
    decided = remarks("repeat.decided", scale=Scale.of(content["score"]), **content)
    return parts.section(title, parts.Table(title, columns, rows), *map(parts.Text, decided))


def _voting(content: Json) -> parts.Section | None:
    """Show what one reply and the mean of all miss and flag."""
    if (voting := content["voting"]) is None:
        return None
    rows: list[parts.Row] = []
    scale = Scale.of(content["score"])
    for name, title in facts("repeat.voting", content):
        item = voting[name]
        edge = scale.text(item["threshold"]) if "threshold" in item else ""
        rates = (text.share_cell(item.get(rate)) for rate in ("missed", "false_alarms"))
        rows.append((title, edge, *rates))
    title = "One reply, and a vote"
    columns = (parts.TableColumn(""), *parts.numbers("Threshold", "Missed", "False alarms"))
    table = parts.Table(title, columns, rows, two_lines=True)
    return parts.section(title, table, parts.Text(say("repeat.same_answers", content)))
