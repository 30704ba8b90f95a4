"""Shift."""

from collections.abc import Sequence
from functools import partial

from calibrail.evaluation.shift import BROKEN, HOLDS, UNTESTED
from calibrail.formatting import Scale, count, percent
from calibrail.report import document as parts
from calibrail.report.document import Document, Json
from calibrail.report.documents import calibrate_messages
from calibrail.report.documents.measures import part_note
from calibrail.report.figures.plot import interval_lines
from calibrail.report.figures.scores import shift_svg
from calibrail.report.text import (
    p_number,
    p_value,
    score_name,
    share,
    share_cell,
    share_with_bounds,
)


def document(content: Json) -> Document:
    """Return what a drift audit says: the finding, a table, what each broken test shows.

    Parameters
    ----------
    content : mapping
        The content of ``shift.json``.
    """
    promised = f"{percent(1 - content['alpha'])} promised"
    name, guarantee = score_name(content), content["guarantee"]
    sentences = [item["sentence"] for item in content["tests"]]
    broken = [item["sentence"] for item in content["tests"] if item["finding"] == BROKEN]
    figure = parts.Figure(
        "shift",
        partial(shift_svg, content),
        "Shares of hallucinated answers that are flagged, with "
        f"{percent(content['confidence'])} intervals. Dashed: the promise. Each threshold comes "
        "from the other side alone.",
        size="fixed",
        lines=interval_lines(
            (str(item["tested_on"]), item["coverage"], 1 - content["alpha"])
            for item in content["tests"]
        ),
    )
    assumptions = (
        "The p-value asks: if both sides came from one process, how often would so few be caught? "
        "Answers are taken as independent; several answers to one question make it too small or "
        "too large.",
        "p-values are corrected for their number (Holm), so that a promise is called broken "
        f"wrongly with at most {percent(1 - content['confidence'])} chance over all tests "
        "together.",
        '"No contradiction" is no proof: with few hallucinated answers a large drop stays unseen. '
        "The interval shows how large.",
    )
    return Document(
        "shift of",
        subject=f"{name}, {promised}, guarantee {guarantee}",
        headline=content["finding"],
        blocks=(
            parts.section("Caught, where the threshold was not set", figure),
            parts.listing("Test by test", sentences, where="page"),
            _table(f"{name}, {promised} ({guarantee})", content),
            parts.Bullets("Broken", broken, "bad", where="terminal"),
            parts.listing("Assumptions", assumptions, where="page"),
        ),
        notes=_parts(content["data"].get("parts", [])),
        next_step=_next_step(content),
        reproduce=content["reproduce"],
        data=content["data"],
        footer="Every number on this page is in shift.json.",
    )


def _parts(sides: Sequence[Json | None]) -> list[str]:
    if len(sides) == 1:
        return list(part_note(sides[0]))
    named = zip(("The first set", "The other set"), sides, strict=True)
    return [f"{name}: {note}" for name, side in named for note in part_note(side)]


def _table(title: str, content: Json) -> parts.Section:
    rows: list[parts.Row] = []
    scale = Scale.of(content["score"])
    for item in content["tests"]:
        needed, weighted = item["needed"], item["weighted"]
        rates = [item[name] for name in ("coverage", "fpr", "home_fpr")]
        rows.append(
            (
                str(item["tested_on"]),
                scale.text(item["threshold"]),
                share_with_bounds(rates[0]),
                *map(share_cell, rates),
                _at_cost(scale.text(needed["threshold"]), needed["fpr"]) if needed else "none",
                _at_cost(share(weighted["coverage"]), weighted["fpr"]) if weighted else "",
                "" if item["p_value"] is None else p_number(item["p_value"]),
                "" if item["adjusted_p"] is None else p_number(item["adjusted_p"]),
            )
        )
    columns = (
        parts.TableColumn("Tested on"),
        # 80 columns hold a long name and what is new; the page and the file hold the rest, and what
        # is needed where it broke stands below.
        parts.TableColumn("Threshold", where="page"),
        parts.TableColumn("Caught", where="terminal"),
        parts.TableColumn("Caught", "right", where="page"),
        parts.TableColumn("False alarms", "right"),
        parts.TableColumn("At home", "right", where="page"),
        *(parts.TableColumn(name, where="page") for name in ("Needed", "Weighted")),
        parts.TableColumn("p", "right", where="page"),
        parts.TableColumn("p, corrected", "right", brief="p, corr."),
    )
    weighted = (
        "Weighted: calibration answers weighted towards the tested ones by surface features; the "
        "weights are estimated, so no promise follows."
    )
    if not any(item["weighted"] for item in content["tests"]):
        weighted = "Weighting is not tried: the data holds no texts whose features could weigh."
    return parts.section(
        "Figures",
        parts.Table(title, columns, rows),
        parts.note(
            "At home: false alarms where the threshold was set. Needed: the threshold that the "
            "tested answers' own hallucinations would set, and the false alarms it costs "
            f"there. {weighted}"
        ),
    )


def _at_cost(what: str, fpr: Json) -> str:
    """Return what is reached, and the false alarms it costs where there are faithful answers."""
    return what if fpr["estimate"] is None else f"{what} at {share(fpr)}"


def _next_step(content: Json) -> str:
    found = {item["finding"] for item in content["tests"]}
    if BROKEN in found:
        groups = calibrate_messages.for_groups(content)
        own = f", or give groups thresholds of their own: {groups}" if groups else "."
        return f"Calibrate again on answers like those where it broke{own}"
    if found == {UNTESTED}:
        return "Label more hallucinated answers of the kind that is to be tested."
    return "Watch it: certify on fresh answers from production from time to time."


def finding(results: Sequence[Json], alpha: float, left_out: int) -> str:
    """Return the whole result in one or two sentences."""
    broken = [item for item in results if item["finding"] == BROKEN]
    tested = [item for item in results if item["finding"] != UNTESTED]
    target = percent(1.0 - alpha)
    if not tested:
        text = f"No test holds enough hallucinated answers to say anything about {target}."
    elif not broken:
        text = (
            f"No test contradicts the promise of {target} caught "
            f"({count(len(tested), 'test')}); that is no proof that nothing changes."
        )
    else:
        names = ", ".join(str(item["tested_on"]) for item in broken[:5])
        more = f" and {len(broken) - 5} more" if len(broken) > 5 else ""
        text = (
            f"The promise of {target} caught does not carry over to {names}{more}: "
            f"{len(broken)} of {count(len(tested), 'test')} broken."
        )
        if any(item["repair"] for item in broken):
            repaired = sum(item["repair"] == "repaired" for item in broken)
            text += f" Weighting repairs {repaired} of them."
    if left_out:
        text += f" Left out for too few calibration answers: {count(left_out, 'test')}."
    return text


def sentence(item: Json, alpha: float, scale: Scale) -> str:
    """Return what one test shows, in words, its thresholds as the user knows them."""
    coverage, name = item["coverage"], item["tested_on"]
    text = f"{name}: {coverage['count']:,} of {count(coverage['n'], 'hallucinated answer')} caught"
    if item["finding"] == UNTESTED:
        return f"{text}; too few to tell."
    text += (
        f" ({share(coverage)}, {percent(coverage['lower'])} to {percent(coverage['upper'])}), "
        f"{percent(1.0 - alpha)} promised"
    )
    tested = f"({p_value(item['p_value'])}; corrected, {p_value(item['adjusted_p'])})"
    if item["finding"] == HOLDS:
        return f"{text}: no contradiction to the promise {tested}."
    text += f": the promise is broken {tested}."
    if needed := item["needed"]:
        instead = cost = ""
        if needed["fpr"]["estimate"] is not None:
            instead = f"instead of {scale.text(item['threshold'])} "
            cost = f", at {share(needed['fpr'])} false alarms"
        text += f" A threshold of {scale.text(needed['threshold'])} {instead}would be needed{cost}."
    weighted = item["weighted"]
    if item["repair"] == "repaired" and weighted["fpr"]["estimate"] is not None:
        text += (
            f" Weighting brings it back to {share(weighted['coverage'])}, at "
            f"{share(weighted['fpr'])} false alarms and an effective sample of "
            f"{weighted['effective_n']:,.0f}; that is seen here, not promised."
        )
    elif item["repair"] == "not repaired":
        text += (
            f" Weighting does not repair it ({share(weighted['coverage'])} caught): more than the "
            "mix of surface features has changed."
        )
    return text
