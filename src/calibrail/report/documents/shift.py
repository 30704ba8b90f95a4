"""Shift."""

from collections.abc import Iterator, Sequence
from functools import partial

from calibrail.evaluation.shift import BROKEN, HOLDS, UNTESTED
from calibrail.formatting import Scale, floor_percent
from calibrail.report import document as parts
from calibrail.report import text
from calibrail.report.document import Document, Json
from calibrail.report.documents import next_steps
from calibrail.report.documents.measures import part_note
from calibrail.report.figures.plot import interval_lines
from calibrail.report.figures.scores import shift_svg
from calibrail.report.messages import remarks, say


def document(content: Json) -> Document:
    """Return what a drift audit says: the finding, a table, what each broken test shows.

    Parameters
    ----------
    content : mapping
        The content of ``shift.json``.
    """
    tests, promised = content["tests"], f"{floor_percent(1 - content['alpha'])} promised"
    name = text.score_name(content)
    figure = parts.Figure(
        "shift",
        partial(shift_svg, content),
        say("shift.figure", content),
        lines=interval_lines(
            (str(item["tested_on"]), item["coverage"], 1 - content["alpha"]) for item in tests
        ),
    )
    assumptions = [say(f"shift.{of}", content) for of in ("independent", "corrected", "no_proof")]
    # The last line names what the headline is about: what broke, or else what was tested.
    at = [item for item in tests if item["finding"] == BROKEN]
    at = at or [item for item in tests if item["finding"] != UNTESTED]
    lowest = min(at, key=lambda item: item["coverage"]["estimate"], default=None)
    broken = [item["sentence"] for item in tests if item["finding"] == BROKEN]
    sources = content["data"]["source"], content["data"]["test"]
    return Document(
        "shift of",
        subject=say("shift.subject", content, name=name, promised=promised),
        headline=content["finding"],
        verdict="rejected" if broken else "",
        tiles=list(_lowest(lowest, content)) if lowest else (),
        blocks=(
            parts.section("Caught on the tested answers", figure),
            parts.listing("Test by test", [item["sentence"] for item in tests], where="page"),
            _table(f"{name}, {promised} ({content['guarantee']})", content),
            parts.Bullets("Broken", broken, "bad", where="terminal"),
            parts.listing("Assumptions", assumptions, where="page"),
        ),
        notes=[*content["data"].get("notes", ()), *_parts(content["data"].get("parts", []))],
        next_step=_next_step(content),
        reproduce=content["reproduce"],
        data={**content["data"], "source": " and ".join(filter(None, sources))},
        footer="Every number on this page is in shift.json.",
    )


def _lowest(item: Json, content: Json) -> Iterator[parts.Tile]:
    """Yield where least is caught, what is promised, and what it costs there."""
    where, rate = str(item["tested_on"]), item["coverage"]
    name = f"Caught of {where}" + ", the lowest" * (len(content["tests"]) > 1)
    promised = f">= {floor_percent(1 - content['alpha'])}"
    yield parts.Tile(name, text.share(rate), text.interval(rate), promised)
    if item["fpr"]["estimate"] is not None:
        needed = item["needed"]["fpr"] if item["finding"] == BROKEN and item["needed"] else {}
        kept = say("shift.kept_at", needed) if needed.get("estimate") is not None else ""
        beside = "; ".join(filter(None, (text.interval(item["fpr"]), kept)))
        yield parts.Tile(f"False alarms of {where}", text.share(item["fpr"]), beside)


def _parts(sides: Sequence[Json | None]) -> list[str]:
    if len(sides) == 1:
        return list(part_note(sides[0]))
    named = zip(("The first set", "The other set"), sides, strict=True)
    return [f"{name}: {note}" for name, side in named for note in part_note(side)]


def _table(title: str, content: Json) -> parts.Section:
    rows: list[parts.Row] = []
    scale, target = Scale.of(content["score"]), floor_percent(1 - content["alpha"])
    for item in content["tests"]:
        needed, weighted = item["needed"], item["weighted"]
        rates = [item[name] for name in ("coverage", "fpr", "home_fpr")]
        rows.append(
            (
                str(item["tested_on"]),
                scale.cell(item["threshold"]),
                text.share_with_bounds(rates[0]),
                *map(text.share_cell, rates),
                _at_cost(scale.cell(needed["threshold"]), needed["fpr"]) if needed else "none",
                _at_cost(text.share(weighted["coverage"]), weighted["fpr"]) if weighted else "",
                *(
                    "" if item[key] is None else text.p_number(item[key])
                    for key in ("p_value", "adjusted_p")
                ),
            )
        )
    columns = (
        "Tested on",
        # 80 columns hold a long name and what is new; the page and the file hold the rest, and what
        # is needed where it broke stands below.
        parts.TableColumn("Threshold", where="page"),
        parts.TableColumn("Caught", where="terminal"),
        parts.TableColumn("Caught", "right", where="page"),
        ">False alarms",
        parts.TableColumn("False alarms before", "right", where="page"),
        parts.TableColumn(f"Threshold for {target} here", where="page"),
        parts.TableColumn("Caught if weighted", where="page"),
        parts.TableColumn("p", "right", where="page"),
        parts.TableColumn("p, corrected", "right", brief="p, corr."),
    )
    weighted = any(item["weighted"] for item in content["tests"])
    note = parts.note(say("shift.columns", weighted=weighted, target=target))
    return parts.section("Figures", parts.table(title, columns, rows), note)


def _at_cost(what: str, fpr: Json) -> str:
    """Return what is reached, and the false alarms it costs where there are faithful answers."""
    return what if fpr["estimate"] is None else f"{what} at {text.share(fpr)}"


def _next_step(content: Json) -> str:
    findings = {item["finding"] for item in content["tests"]}
    if BROKEN in findings:
        return say("shift.calibrate_again", groups=next_steps.for_groups(content))
    if content["shared"]:
        return say("shift.leave_out")
    command = next_steps.again(content, "shift", "calibrate", next_steps.SIDES)
    return say("shift.label_more" if findings == {UNTESTED} else "shift.watch", command=command)


def finding(results: Sequence[Json], alpha: float, left_out: int, shared: float = 0.0) -> str:
    """Return the whole result in a few sentences; ``shared`` is a share of the test answers."""
    broken = [item for item in results if item["finding"] == BROKEN]
    tested = [item for item in results if item["finding"] != UNTESTED]
    lowest = min(tested, key=lambda item: item["coverage"]["estimate"], default=None)
    repairs = [item["repair"] for item in broken]
    about = {
        "shared": shared,
        "target": floor_percent(1.0 - alpha),
        "n_tested": len(tested),
        "lowest": lowest,
        "kept": lowest is not None and lowest["coverage"]["lower"] >= 1.0 - alpha,
        "broken": [str(item["tested_on"]) for item in broken],
        "n_repaired": repairs.count("repaired") if any(repairs) else None,
        "n": left_out,
    }
    found = "untested" if not tested else "broken" if broken else "same" if shared else "holds"
    codes = found, *["left_out"] * bool(left_out)
    return " ".join(say(f"shift.{code}", about) for code in codes)


def sentence(item: Json, alpha: float, scale: Scale) -> str:
    """Return what one test shows, in words, its thresholds as the user knows them."""
    about = {"alpha": alpha, "untested": UNTESTED, "holds": HOLDS, "scale": scale}
    return " ".join(remarks("shift.sentence", item, about))
