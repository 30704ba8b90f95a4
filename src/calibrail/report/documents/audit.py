"""Document of an audit."""

from collections.abc import Container, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Final

from calibrail.formatting import Scale, floor_percent, listed, number, percent
from calibrail.report import document as parts
from calibrail.report import text as phrases
from calibrail.report.document import Document, Json
from calibrail.report.documents.measures import part_note
from calibrail.report.documents.next_steps import after_audit
from calibrail.report.figures import comparison as figures
from calibrail.report.messages import called, facts, remarks, say, word
from calibrail.report.text import bounds, capital, estimate, measure_cell, plain, third

#: Measures of a feature beside a detector that are shown with two decimals; all others have three.
_IN_HUNDREDTHS: Final = ("share", "spearman", "partial")


#: Verdicts on features of which none explains a result.
_INNOCENT: Final = {"does not explain", "is the score", "tells the label"}


def document(audit: Json) -> Document:
    """Return what an audit says: its conclusions first, then what they rest on.

    Parameters
    ----------
    audit : mapping
        The content of ``audit.json``.
    """
    said: dict[bool, list[str]] = {True: [], False: []}
    for item in audit["conclusions"]:
        # That a column was made from the label is a warning.
        said[item["code"] == "column_tells_label"].append(item["message"])
    first, *further = said[False]
    mains = [item["message"] for item in audit["conclusions"] if item["code"] == "confounds"]
    detectors = audit["detectors"]
    verdicts = {row["verdict"] for item in detectors for row in item["confounds"]}
    explained = verdicts & {"explains", "explains most"}
    clustered = audit["n_groups"] < audit["n_hallucinated"] + audit["n_faithful"]
    by_reason: dict[str, list[str]] = {}
    for item in audit["left_out"]:
        by_reason.setdefault(item["reason"], []).append(item["part"])
    left_out = [f"{listed(names)}: {reason}" for reason, names in by_reason.items()]
    assumptions = remarks("audit.assumptions", audit, clustered=clustered)
    counted = say("audit.summary", audit, clustered=clustered)
    alone = explained and len(detectors) == 1
    headline, summary = first, f"{first} {counted}" if alone else counted
    if alone:
        headline = say("audit.headline", most="explains" not in explained)
    elif "does not explain" in verdicts <= _INNOCENT and first in mains:
        headline, summary = say("audit.innocent", audit), " ".join([*mains, counted])
        first, further = f"{headline}: {' '.join(mains)}", [it for it in further if it not in mains]
    return Document(
        "audit of",
        subject=", ".join(phrases.named(plain(item["name"])) for item in detectors),
        headline=headline,
        summary=summary,
        brief=first,
        blocks=(
            _matched_figure(1, detectors[0]),
            parts.Bullets("What the data shows", further, where="terminal"),
            parts.listing("What else the data shows", further, where="page"),
            *(_detector_section(place, item, audit) for place, item in enumerate(detectors, 1)),
            _components(audit["components"]),
            _agreement(audit["agreement"]),
            _leakage(audit["leakage"]),
            parts.listing("Left out", left_out),
            parts.listing("What this rests on", assumptions, where="page"),
        ),
        warnings=[parts.Bullet(text) for text in said[True]],
        notes=[*audit["data"].get("notes", ()), *part_note(audit["data"].get("part"))],
        next_step=say(
            "audit.next",
            explained=explained,
            several=len(detectors) > 1,
            command=after_audit(audit, explained=bool(explained)),
        ),
        reproduce=audit["reproduce"],
        data=audit["data"],
        footer="Every number on this page is in audit.json.",
        wide=True,
    )


def _detector_section(place: int, detector: Json, audit: Json) -> parts.Section:
    """Show what explains a detector's result, where it works, and how it reads as probability."""
    meaning = capital(Scale.of(detector["score"]).meaning)
    return parts.section(
        f"{plain(detector['name'])}: AUROC {phrases.with_bounds(detector['auroc'])}",
        parts.note(say("audit.detector", detector, meaning=meaning, policy=audit["undefined"])),
        _confounds(place, detector),
        _strata(place, detector) if detector["strata"] else None,
        _reliability(place, detector, floor_percent(audit["confidence"])),
    )


def _matched_figure(place: int, detector: Json) -> parts.Figure | None:
    """Show how a detector ranks pairs that are alike; nothing where no feature is apart from it."""
    if all(row["verdict"] == "is the score" for row in detector["confounds"]):
        return None
    draw, caption = partial(figures.matched_svg, detector), say("audit.matched_figure", detector)
    return parts.Figure(f"{place}-matched", draw, caption)


def _confounds(place: int, detector: Json) -> parts.Section | None:
    """Show everything that is known about each feature beside one detector."""
    name, rows, area = plain(detector["name"]), detector["confounds"], detector["auroc"]
    if not (figure := _matched_figure(place, detector)):
        return None
    alike: list[parts.Row] = [("(all pairs)", estimate(area), bounds(area), "", "")]
    full, measures = list[parts.Row](), facts("audit.measures")
    for row in rows:
        matched, verdict = row["matched"], word("audit.verdicts", row["verdict"])
        if row["verdict"] != "is the score":
            alone = estimate(row["feature_auroc"])
            alike.append((row["called"], estimate(matched), bounds(matched), alone, verdict))
        bins = f"{row['n_bins']} bins" if row["n_bins"] else "equal values"
        full.append(
            (
                parts.Cell(capital(row["called"]), f"n = {row['n']:,}"),
                *(measure_cell(row[key], 2 if key in _IN_HUNDREDTHS else 3) for key, _ in measures),
                parts.Cell(f"{row['n_pairs']:,}", bins),
                measure_cell(row["balance"], 2),
                verdict,
            )
        )
    brief_heads = "Alike in", ">AUROC", ">Interval", ">Feature alone", ""
    named = (f">{heading}" for _, heading in measures)
    heads = "Feature", *named, ">Pairs", ">Balance", "What it explains"
    brief, title = f"{name}: AUROC over pairs that are alike", "Feature by feature"
    return parts.section(
        "What explains it?",
        parts.note("The figure is at the top of the page.") if place == 1 else figure,
        parts.table(brief, brief_heads, alike, where="terminal"),
        parts.folded(
            title,
            parts.Bullets(title, [row["sentence"] for row in rows]),
            parts.table(f"{name}, feature by feature", heads, full),
        ),
    )


def _strata(place: int, detector: Json) -> parts.Section:
    name = plain(detector["name"])
    short: list[parts.Row] = []
    full: list[parts.Row] = []
    for division in detector["strata"]:
        p, corrected = (phrases.p_number(division["test"][key]) for key in ("p_value", "p_holm"))
        known = division["test"]["p_holm"] is not None
        brief = f"differ? p {corrected}" if known else "no test"
        test = say("audit.test", division, p=p, corrected=corrected)
        short.append(parts.Heading(f"{division['called']} ({brief})"))
        full.append(parts.Heading(f"{capital(division['called'])}: {test}"))
        for row in division["strata"]:
            called, area = third(division["name"], row["name"]), row["auroc"]
            sizes = (f"{row['n_hallucinated']:,}", f"{row['n_faithful']:,}")
            short.append((called, *sizes, estimate(area), bounds(area)))
            turned = " (reversed)" if row["reversed"] else ""
            full.append(
                (
                    parts.Cell(called, " to ".join(map(number, row["range"] or ()))),
                    *sizes,
                    parts.Cell(estimate(area) + turned, measure_cell(area).below),
                )
            )
    brief_heads = "", ">Hall.", ">Faithful", ">AUROC", ">Interval"
    heads = "Stratum", ">Hallucinated", ">Faithful", ">AUROC"
    return parts.section(
        "Where does it work?",
        parts.Figure(f"{place}-strata", partial(figures.strata_svg, detector), size="fixed"),
        parts.table(f"{name}: strata", brief_heads, short, where="terminal"),
        parts.folded("Numbers", parts.table(f"{name} in every stratum", heads, full)),
    )


def _reliability(place: int, detector: Json, confidence: str) -> parts.Section | None:
    if not (measured := detector["reliability"]):
        return None
    scale, reliability = Scale.of(detector["score"]), partial(figures.reliability_svg, detector)
    rows = [
        (
            f"{tenth}",
            f"{scale.text(item['lower'])} to {scale.text(item['upper'])}",
            f"{item['rate']['n']:,}",
            f"{item['rate']['count']:,}",
            phrases.share_cell(item["rate"]),
        )
        for tenth, item in enumerate(measured["deciles"], start=1)
    ]
    heads = ">Tenth", ">Scores", ">Answers", ">Hallucinated", ">Share"
    return parts.section(
        "Is it a probability?",
        parts.Figure(f"{place}-reliability", reliability, size="half"),
        parts.Figure(f"{place}-deciles", partial(figures.deciles_svg, detector), size="half"),
        parts.note(say("audit.calibration", measured, confidence=confidence)),
        parts.folded("Numbers", parts.table("Rate in every tenth", heads, rows)),
        where="page",
    )


def _components(components: Sequence[Json]) -> parts.Section | None:
    if not components:
        return None
    title, blocks = "The parts of the index", list[parts.Block]([parts.note(say("audit.turned"))])
    for item in components:
        areas = {word("audit.component_words", row["name"]): row["auroc"] for row in item["rows"]}
        rows = [(name, measure_cell(area), bounds(area)) for name, area in areas.items()]
        encoder = parts.TableColumn(f"{plain(item['encoder'])}, n = {item['n']:,}", brief="")
        heads = encoder, ">AUROC", parts.TableColumn("Interval", where="terminal")
        text = parts.Text(item["sentence"], where="page")
        blocks += [text, parts.table(title, heads, rows)]
    return parts.section(title, *blocks)


def _agreement(pairs: Sequence[Json]) -> parts.Section | None:
    if not pairs:
        return None
    tops = [f">Same among top {percent(top['share'])}" for top in pairs[0]["top"]]
    rows = [
        (
            parts.Cell(f"{plain(pair['first'])} and {plain(pair['second'])}", f"n = {pair['n']:,}"),
            *(measure_cell(pair[key], 2) for key in ("spearman", "given_label")),
            *(
                parts.Cell(percent(top["overlap"]), f"by chance {percent(top['by_chance'])}")
                for top in pair["top"]
            ),
        )
        for pair in pairs
    ]
    heads = "Pair", ">Spearman", ">Spearman given the label", *tops
    return parts.tabled("Do they agree?", heads, rows, where="page")


def _leakage(leakage: Json) -> parts.Section:
    """Show what could give labels away."""
    brief: list[tuple[str, str]] = []
    rows: list[tuple[str, parts.Cell | str, str]] = []
    for item in leakage["copies"]:
        name = f"Near-duplicates {word('audit.across', item['across'])}"
        pair = " and ".join(map(plain, item["pairs"][0])) if item["pairs"] else ""
        n, about = f"{item['n']:,}", f"{item['exact']:,} identical"
        brief.append((name, f"{n} ({about})"))
        rows.append((name, n, f"{about}; e.g. {pair}" if pair else about))
    for item in leakage["shared"]:
        about = say("audit.repeated", item)
        rows.append((word("audit.shared", item["what"]), f"{item['n_distinct']:,}", about))
    for item in leakage["giveaways"]:
        name = f"Label from the others of its {plain(item['column'])}"
        if item["auroc"]["estimate"] is not None:
            brief.append((name, f"AUROC {estimate(item['auroc'])}"))
        rows.append((name, measure_cell(item["auroc"]), say("audit.giveaway", item)))
    muted = [(name, value, parts.Cell(about, style="muted")) for name, value, about in rows]
    ids = ("Ids that repeat", f"{leakage['n_ids_repeated']:,}", "")
    title = "Could the label be known otherwise?"
    table = parts.table(title, ("What", ">Number", "About it"), [*muted, ids], where="page")
    return parts.section(title, parts.Facts(brief, where="terminal"), table)


#: AUROC below which what a detector adds to a surface feature is as good as nothing.
SMALL: Final = 0.01


def with_sentences(audit: Json) -> dict[str, Any]:
    """Return the content of ``audit.json``: what was measured, and what it shows in words.

    Parameters
    ----------
    audit : mapping
        ``Audit.to_dict()``.
    """
    before = dict(takewhile(lambda item: item[0] != "detectors", audit.items()))
    conclusions = [
        {"code": code, "detector": name, "message": message}
        for code, name, message in _conclusions(audit)
        if message
    ]
    detectors = [
        {
            **item,
            "confounds": [
                {**row, "called": called(row["feature"]), "sentence": _confound(item["name"], row)}
                for row in item["confounds"]
            ],
            "strata": [{**part, "called": called(part["name"])} for part in item["strata"]],
        }
        for item in audit["detectors"]
    ]
    components = [{**item, "sentence": _components_sentence(item)} for item in audit["components"]]
    made = {"detectors": detectors, "components": components}
    return {**before, "conclusions": conclusions, **audit, **made}


def _conclusions(audit: Json) -> Iterator[tuple[str, str | None, str]]:
    """Yield code, detector and sentence: what explains each result first, the data's own last."""
    for item in audit["detectors"]:
        name = item["name"]
        rows = [row for row in item["confounds"] if row["verdict"] != "tells the label"]
        main, named = _main(name, rows)
        yield "reversed", name, _reversed(item)
        yield "lead", name, _lead(name, rows)
        yield "confounds", name, main or say("audit.unexplained", item)
        length = next((row for row in rows if row["feature"] == "length"), None)
        if length and length["verdict"] not in ("is the score", "nothing to explain"):
            # The main sentence may be about it already.
            yield "length", name, "" if named is length else _confound(name, length)
    first, made = audit["detectors"][0], set()
    for row in first["confounds"]:
        if row["verdict"] == "tells the label":
            made.add(row["feature"])
            yield "column_tells_label", None, _confound("any detector", row)
    for item in audit["detectors"]:
        name = item["name"]
        for division in item["strata"]:
            yield "strata", name, _strata_sentence(name, division, audit["confidence"])
        # Whether the scores can be read as probabilities.
        read = item["reliability"]
        if read and None not in (read["ece_isotonic"], read["by_chance"]):
            predicted = [part["predicted"] for part in read["isotonic"]]
            is_flat = max(predicted) - min(predicted) < 0.02
            yield "reliability", name, say("audit.reliability", read, name=name, is_flat=is_flat)
        if any(item["n_undefined"].values()):
            yield "undefined", name, say("audit.undefined", item, policy=audit["undefined"])
    for item in audit["components"]:
        yield "components", None, _components_sentence(item)
    known = [pair for pair in audit["agreement"] if pair["spearman"]["estimate"] is not None]
    if known:
        lowest = min(known, key=lambda pair: pair["spearman"]["estimate"])
        mean = sum(pair["spearman"]["estimate"] for pair in known) / len(known)
        code = "audit.agreement_of_two" if len(known) == 1 else "audit.agreement"
        yield "agreement", None, say(code, lowest, mean=mean)
    for code, item in _leaks(audit["leakage"], made):
        yield code, None, say(f"audit.{code}", item)


def _confound(name: str, row: Json) -> str:
    """Say what one feature has to do with one detector."""
    verdict, matched, area = row["verdict"], row["matched"], row["auroc"]["estimate"]
    if verdict in ("is the score", "nothing to explain", "tells the label"):
        return say(f"audit.{verdict.replace(' ', '_')}", row, name=name)
    explains = dict(facts("audit.explain_words")).get(verdict)
    if explains is None or matched["estimate"] is None:
        return say("audit.unknown", row, name=name)
    # Whether matched pairs are shown to be ranked the other way round.
    turned = False
    if verdict == "explains" and None not in (matched["lower"], matched["upper"], area):
        turned = matched["upper"] < 0.5 if area > 0.5 else matched["lower"] > 0.5
    return say("audit.explains", row, name=name, explains=explains, turned=turned)


def _main(name: str, rows: Sequence[Json]) -> tuple[str, Json | None]:
    """Say what surface features have to do with a detector's result, and name the one it names."""
    rows = [row for row in rows if row["verdict"] != "is the score"]
    if not rows:
        return "", None
    about = {"name": name, "auroc": rows[0]["auroc"]}
    if all(row["verdict"] == "nothing to explain" for row in rows):
        return say("audit.no_result", about), None
    for verdict in ("explains", "explains most", "explains part"):
        if chosen := [row for row in rows if row["verdict"] == verdict]:
            # The surest: of what is shown to be explained, the largest share.
            surest = max(chosen, key=lambda row: row["share"]["lower"] or 0.0)
            others = [row for row in chosen if row is not surest and verdict != "explains part"]
            more = f" {say('audit.so_do', others=_called(others))}" if others else ""
            return _confound(name, surest) + more, surest
    if not (innocent := [row for row in rows if row["verdict"] == "does not explain"]):
        return say("audit.cannot_tell", about), None
    least = min(innocent, key=lambda row: abs((row["matched"]["estimate"] or 0.5) - 0.5))
    text = say(
        "audit.not_explained",
        about,
        innocent=_called(innocent),
        least=least["feature"],
        matched=least["matched"],
        unclear=_called([row for row in rows if row["verdict"] == "cannot tell"]),
    )
    return text, None


def _called(rows: Sequence[Json]) -> list[str]:
    return [called(row["feature"]) for row in rows]


def _lead(name: str, rows: Sequence[Json]) -> str:
    """Say which features rank the answers better than the detector, the best of them first."""
    apart = [row for row in rows if row["verdict"] != "is the score"]
    better = [row for row in apart if (row["lead"]["lower"] or 0.0) > 0.0]
    if not better or (better[0]["auroc"]["estimate"] or 0.0) < 0.5:
        return ""
    better.sort(key=lambda row: (-(row["lead"]["estimate"] or 0.0), row["feature"]))
    best, *others = better
    added = added_to(name, called(best["feature"]), best["added"])
    return say("audit.lead", name=name, best=best, others=_called(others), added=added)


def added_to(name: str, subject: str, added: Json) -> str:
    """Say what a detector adds to a feature that ranks better alone."""
    return say("audit.added", added, name=name, subject=subject, small=SMALL)


def _strata_sentence(name: str, division: Json, confidence: float) -> str:
    """Say that a detector works unevenly, where the corrected test shows it."""
    test, known = division["test"], []
    if test["p_holm"] is None or test["p_holm"] > 1.0 - confidence:
        return ""
    for row in division["strata"]:
        if row["auroc"]["estimate"] is not None and row["name"] not in test["left_out"]:
            stratum = third(division["name"], row["name"])
            thirds = division["kind"] == "thirds"
            known.append({**row, "called": f"{stratum} third" if thirds else f'"{row["name"]}"'})
    known.sort(key=lambda row: row["auroc"]["estimate"])
    return say("audit.strata", name=name, division=division, lowest=known[0], highest=known[-1])


def _reversed(item: Json) -> str:
    """Say that a detector points away from hallucinations, everywhere or in some strata."""
    if item["reversed"]:
        return say("audit.reversed", item, scale=Scale.of(item["score"]))
    where = [
        f"{called(division['name'])}: {third(division['name'], stratum['name'])}"
        for division in item["strata"]
        for stratum in division["strata"]
        if stratum["reversed"]
    ]
    return say("audit.reversed_in", name=item["name"], strata=where) if where else ""


def _components_sentence(item: Json) -> str:
    """Say which angle carries the index."""
    areas = [
        f"{estimate(row['auroc'])} for {word('audit.component_words', row['name'])}"
        for row in item["rows"]
    ]
    driver = item["driver"] and word("audit.component_words", item["driver"])
    return say("audit.components", areas=areas, driver=driver)


def _leaks(section: Json, made: Container[str]) -> Iterator[tuple[str, Json]]:
    """Yield what could give labels away: the code of a sentence, and what it is about."""
    for item in section["copies"]:
        if item["n"] and item["across"] in ("split", "group"):
            yield f"copies_across_{item['across']}", item
    for item in section["shared"]:
        if item["n_both"] and item["what"] == "whole":
            yield "contradictory_labels", item
        elif item["n_both"] and item["what"] == "answer":
            yield "answer_with_both_labels", item
    for item in section["giveaways"]:
        area = item["auroc"]
        if item["column"] in made or area["lower"] is None or area["upper"] is None:
            continue
        if area["lower"] <= 0.5 <= area["upper"]:
            continue
        by_design = item["n_mixed"] and not item["n_alike"] and area["estimate"] == 0.0
        yield "paired_by_design" if by_design else "label_from_group", item
    if section["n_ids_repeated"]:
        yield "ids_repeated", section
