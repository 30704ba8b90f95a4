"""Document of an audit."""

from collections.abc import Container, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, Final

from calibrail.formatting import Scale, count, listed, number, percent
from calibrail.report import document as parts
from calibrail.report import text as phrases
from calibrail.report.document import Document, Json
from calibrail.report.documents.measures import LABELS, part_note
from calibrail.report.figures.comparison import (
    deciles_svg,
    matched_svg,
    reliability_svg,
    strata_svg,
)
from calibrail.report.messages import say
from calibrail.report.text import (
    COMPONENTS,
    EXPLAINS,
    bounds,
    called,
    estimate,
    measure_cell,
    plain,
    third,
)

#: What each verdict on a feature means, in a cell.
_VERDICTS: Final = {
    **{verdict: f"{explains} it" for verdict, explains in EXPLAINS.items()},
    "cannot tell": "the data cannot tell",
    "nothing to explain": "nothing to explain",
    "is the score": "is the score itself",
    "tells the label": "tells the label itself",
}

#: The measures of a feature beside a detector: heading, field, decimals.
_MEASURES: Final = (
    ("Alone", "feature_auroc", 3),
    ("Detector, all pairs", "auroc", 3),
    ("Detector, alike", "matched", 3),
    ("Share explained", "share", 2),
    ("Added to it", "added", 3),
    ("Correlation", "spearman", 2),
    ("Score and label, given it", "partial", 2),
)


def detector_section(place: int, detector: Json, audit: Json) -> parts.Section:
    """Show what explains a detector's result, where it works, and how it reads as probability."""
    scale, missing = Scale.of(detector["score"]), detector["n_undefined"]
    means, called = _means(detector, scale), phrases.plain(scale.column or "score")
    undefined = (
        f"Undefined for {missing['hallucinated']:,} hallucinated and {missing['faithful']:,} "
        f"faithful ones (policy: {audit['undefined']}). "
    )
    return parts.section(
        f"{phrases.plain(detector['name'])}: AUROC {phrases.with_bounds(detector['auroc'])}",
        parts.note(
            f"Cohen's d {phrases.estimate(detector['cohens_d'], 2)}; mean "
            f"{called} {means[0]} of hallucinated and {means[1]} of faithful answers. "
            f"{undefined if any(missing.values()) else ''}{phrases.capital(scale.meaning)}."
        ),
        _confounds(place, detector),
        _strata(place, detector) if detector["strata"] else None,
        _reliability(place, detector, percent(audit["confidence"])),
    )


def matched_figure(place: int, detector: Json) -> parts.Figure | None:
    """Show how a detector ranks pairs that are alike; nothing where no feature is apart from it."""
    if all(row["verdict"] == "is the score" for row in detector["confounds"]):
        return None
    return parts.Figure(
        f"{place}-matched",
        partial(matched_svg, detector),
        f"{phrases.plain(detector['name'])}. First line: how often a hallucinated answer looks "
        "more suspicious than a faithful one. Orange: the same among pairs that are alike in a "
        "feature. Where orange falls to 0.5 while the first line is far from it, the feature "
        "explains the result. Grey: the feature by itself.",
        size="fixed",
    )


def _confounds(place: int, detector: Json) -> parts.Section | None:
    name, rows, area = phrases.plain(detector["name"]), detector["confounds"], detector["auroc"]
    if not (figure := matched_figure(place, detector)):
        return None
    alike: list[parts.Row] = [("(all pairs)", phrases.estimate(area), phrases.bounds(area), "", "")]
    alike += [
        (
            row["called"],
            phrases.estimate(row["matched"]),
            phrases.bounds(row["matched"]),
            phrases.estimate(row["feature_auroc"]),
            _VERDICTS[row["verdict"]],
        )
        for row in rows
        if row["verdict"] != "is the score"
    ]
    heads = parts.numbers("AUROC", "Interval", "Feature alone")
    columns = (parts.TableColumn("Alike in"), *heads, parts.TableColumn(""))
    above = parts.note("The figure is at the top of the page.")
    return parts.section(
        "What explains it?",
        above if place == 1 else figure,
        parts.Table(f"{name}: AUROC over pairs that are alike", columns, alike, where="terminal"),
        parts.folded(
            "Feature by feature",
            parts.Bullets("Feature by feature", [row["sentence"] for row in rows]),
            _features_table(name, rows),
        ),
    )


def _features_table(name: str, rows: Sequence[Json]) -> parts.Table:
    """Return everything that is known about each feature beside one detector."""
    cells: list[parts.Row] = [
        (
            parts.Cell(phrases.capital(row["called"]), f"n = {row['n']:,}"),
            *(phrases.measure_cell(row[field], digits) for _, field, digits in _MEASURES),
            parts.Cell(
                f"{row['n_pairs']:,}", f"{row['n_bins']} bins" if row["n_bins"] else "equal values"
            ),
            phrases.measure_cell(row["balance"], 2),
            _VERDICTS[row["verdict"]],
        )
        for row in rows
    ]
    heads = parts.numbers(*(heading for heading, _, _ in _MEASURES), "Pairs", "Balance")
    columns = (parts.TableColumn("Feature"), *heads, parts.TableColumn("What it explains"))
    return parts.Table(f"{name}, feature by feature", columns, cells)


def _strata(place: int, detector: Json) -> parts.Section:
    name = phrases.plain(detector["name"])
    short: list[parts.Row] = []
    full: list[parts.Row] = []
    for division in detector["strata"]:
        p = division["test"]["p_holm"]
        brief = "no test" if p is None else f"differ? p {phrases.p_number(p)}"
        short.append(parts.Heading(f"{division['called']} ({brief})"))
        full.append(parts.Heading(f"{phrases.capital(division['called'])}: {_test(division)}"))
        for row in division["strata"]:
            called, area = third(division["name"], row["name"]), row["auroc"]
            sizes = (f"{row['n_hallucinated']:,}", f"{row['n_faithful']:,}")
            short.append((called, *sizes, phrases.estimate(area), phrases.bounds(area)))
            turned = " (reversed)" if row["reversed"] else ""
            reached = parts.Cell(phrases.estimate(area) + turned, phrases.measure_cell(area).below)
            full.append(
                (
                    parts.Cell(called, " to ".join(map(number, row["range"] or ()))),
                    *sizes,
                    *_means(row, Scale.of(detector["score"])),
                    phrases.estimate(row["cohens_d"], 2),
                    reached,
                )
            )
    brief_columns = (
        parts.TableColumn(""),
        *parts.numbers("Hall.", "Faithful", "AUROC", "Interval"),
    )
    means = ("Mean, hallucinated", "Mean, faithful", "Cohen's d", "AUROC")
    columns = (parts.TableColumn("Stratum"), *parts.numbers("Hallucinated", "Faithful", *means))
    return parts.section(
        "Where does it work?",
        parts.Figure(f"{place}-strata", partial(strata_svg, detector), size="fixed"),
        parts.Table(f"{name}: strata", brief_columns, short, where="terminal"),
        parts.folded("Numbers", parts.Table(f"{name} in every stratum", columns, full)),
    )


def _means(item: Json, scale: Scale) -> list[str]:
    """Return the mean scores of hallucinated and of faithful answers."""
    return [scale.text(item["means"][label]["mean"]) for label in LABELS]


def _test(division: Json) -> str:
    test, missing = division["test"], division["n_missing"]
    text = f"no test, {test['reason']}"
    if test["p_value"] is not None:
        p, corrected = phrases.p_number(test["p_value"]), phrases.p_number(test["p_holm"])
        text = f"same everywhere? p = {p}, corrected {corrected}"
    return f"{text}; {count(missing, 'answer')} without a value" if missing else text


def _reliability(place: int, detector: Json, confidence: str) -> parts.Section | None:
    if not (measured := detector["reliability"]):
        return None
    scale, after = Scale.of(detector["score"]), ""
    if measured["ece_isotonic"] is not None:
        after = (
            f", {measured['ece_isotonic']:.3f} after isotonic calibration fitted on other answers "
            f"(chance alone makes about {measured['by_chance']:.3f})"
        )
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
    columns = parts.numbers("Tenth", "Scores", "Answers", "Hallucinated", "Share")
    return parts.section(
        "Is it a probability?",
        parts.Figure(f"{place}-reliability", partial(reliability_svg, detector), size="half"),
        parts.Figure(f"{place}-deciles", partial(deciles_svg, detector), size="half"),
        parts.note(
            f"ECE {measured['ece_scaled']:.3f} for scores scaled to 0..1{after}. Ten bins of equal "
            f"frequency, equal scores together; {confidence} Wilson intervals."
        ),
        parts.folded("Numbers", parts.Table("Rate in every tenth", columns, rows)),
        where="page",
    )


#: The conclusion that a column was made from the label: a warning.
_LABEL_COLUMN: Final = "column_tells_label"

#: What answers can share, and how it is said.
_SHARED: Final = {
    "question": "Distinct questions",
    "answer": "Distinct answers",
    "whole": "Distinct wholes (question, contexts and answer)",
}

#: What near-duplicates can lie apart in.
_ACROSS: Final = {
    "label": "with the other label",
    "group": "in another group",
    "split": "on another side of the split",
}


def document(audit: Json) -> Document:
    """Return what an audit says: its conclusions first, then what they rest on.

    Parameters
    ----------
    audit : mapping
        The content of ``audit.json``.
    """
    first, *further = (
        item["message"] for item in audit["conclusions"] if item["code"] != _LABEL_COLUMN
    )
    detectors = audit["detectors"]
    clustered = audit["n_groups"] < audit["n_hallucinated"] + audit["n_faithful"]
    groups = f", in {count(audit['n_groups'], 'group')}" if clustered else ""
    by_reason: dict[str, list[str]] = {}
    for item in audit["left_out"]:
        by_reason.setdefault(item["reason"], []).append(item["part"])
    left_out = [f"{listed(names)}: {reason}" for reason, names in by_reason.items()]
    together = "; they count answers of one group as belonging together" if clustered else ""
    assumptions = (
        "Pairs are alike in one feature at a time, and in nothing else. What a feature explains "
        "may be due to something that goes with it, and pairs that are alike may be unlike the "
        "rest of the data.",
        f"Intervals hold at the {percent(audit['confidence'])} level each, not all together"
        f"{together}. Tests of strata are corrected for the number of divisions (Holm).",
        "The labels are right.",
    )
    return Document(
        "audit of",
        subject=", ".join(plain(item["name"]) for item in detectors),
        headline=first,
        summary=f"{count(audit['n_hallucinated'], 'hallucinated answer')}, "
        f"{audit['n_faithful']:,} faithful{groups}.",
        brief=first,
        blocks=(
            matched_figure(1, detectors[0]),
            parts.Bullets("What the data shows", further, where="terminal"),
            parts.listing("What else the data shows", further, where="page"),
            *(detector_section(place, item, audit) for place, item in enumerate(detectors, 1)),
            _components(audit["components"]),
            _agreement(audit["agreement"]),
            _leakage(audit["leakage"]),
            parts.listing("Left out", left_out),
            parts.listing("What this rests on", assumptions, where="page"),
        ),
        warnings=[
            parts.Bullet(item["message"])
            for item in audit["conclusions"]
            if item["code"] == _LABEL_COLUMN
        ],
        notes=part_note(audit["data"].get("part")),
        reproduce=audit["reproduce"],
        data=audit["data"],
        footer="Every number on this page is in audit.json.",
    )


def _components(components: Sequence[Json]) -> parts.Section | None:
    if not components:
        return None
    blocks: list[parts.Block] = [
        parts.note(
            "Turned so that higher means more likely hallucinated by the idea of the index: near "
            "the question, far from the context."
        )
    ]
    for item in components:
        rows = [
            (
                COMPONENTS[row["name"]],
                estimate(row["cohens_d"], 2),
                measure_cell(row["auroc"]),
                bounds(row["auroc"]),
            )
            for row in item["rows"]
        ]
        columns = (
            parts.TableColumn(f"{plain(item['encoder'])}, n = {item['n']:,}", brief=""),
            parts.TableColumn("Cohen's d", "right", where="page"),
            parts.TableColumn("AUROC", "right"),
            parts.TableColumn("Interval", where="terminal"),
        )
        table = parts.Table("The parts of the index", columns, rows)
        blocks += [parts.Text(item["sentence"], where="page"), table]
    return parts.section("The parts of the index", *blocks)


def _agreement(pairs: Sequence[Json]) -> parts.Section | None:
    if not pairs:
        return None
    tops = [f"Same among top {percent(top['share'])}" for top in pairs[0]["top"]]
    rows = [
        (
            parts.Cell(f"{plain(pair['first'])} and {plain(pair['second'])}", f"n = {pair['n']:,}"),
            *(measure_cell(pair[key], 2) for key in ("pearson", "spearman", "given_label")),
            *(
                parts.Cell(percent(top["overlap"]), f"by chance {percent(top['by_chance'])}")
                for top in pair["top"]
            ),
        )
        for pair in pairs
    ]
    heads = parts.numbers("Pearson", "Spearman", "Spearman given the label", *tops)
    table = parts.Table("Do they agree?", (parts.TableColumn("Pair"), *heads), rows)
    return parts.section("Do they agree?", table, where="page")


def _leakage(leakage: Json) -> parts.Section:
    """Show what could give labels away."""
    brief: list[tuple[str, str]] = []
    rows: list[parts.Row] = []

    def add(name: str, value: parts.Cell | str, about: str) -> None:
        rows.append((name, value, parts.Cell(about, style="muted")))

    for item in leakage["copies"]:
        name, example = f"Near-duplicates {_ACROSS[item['across']]}", ""
        brief.append((name, f"{item['n']:,} ({item['exact']:,} identical)"))
        if item["pairs"]:
            example = f"; e.g. {' and '.join(map(plain, item['pairs'][0]))}"
        add(name, f"{item['n']:,}", f"{item['exact']:,} identical{example}")
    for item in leakage["shared"]:
        about = f"{item['n_repeated']:,} occur more than once, {item['n_both']:,} with both labels"
        add(_SHARED[item["what"]], f"{item['n_distinct']:,}", about)
    for item in leakage["giveaways"]:
        name = f"Label from the others of its {plain(item['column'])}"
        if item["auroc"]["estimate"] is not None:
            brief.append((name, f"AUROC {estimate(item['auroc'])}"))
        about = (
            f"AUROC; {item['n_values']:,} in all, of those with several answers "
            f"{item['n_mixed']:,} hold both labels, {item['n_alike']:,} one"
        )
        add(name, measure_cell(item["auroc"]), about)
    rows.append(("Ids that repeat", f"{leakage['n_ids_repeated']:,}", ""))
    title = "Could the label be known otherwise?"
    columns = (
        parts.TableColumn("What"),
        parts.TableColumn("Number", "right"),
        parts.TableColumn("About it"),
    )
    return parts.section(
        title, parts.Facts(brief, where="terminal"), parts.Table(title, columns, rows, where="page")
    )


#: AUROC below which what a detector adds to a surface feature is as good as nothing.
SMALL: Final = 0.01


def with_sentences(audit: Json) -> dict[str, Any]:
    """Return the content of ``audit.json``: what was measured, and what it shows in words.

    Parameters
    ----------
    audit : mapping
        ``Audit.to_dict()``.
    """
    return {
        **dict(takewhile(lambda item: item[0] != "detectors", audit.items())),
        "conclusions": [
            {"code": code, "detector": name, "message": message}
            for code, name, message in _conclusions(audit)
            if message
        ],
        **audit,
        "detectors": [_detector(item) for item in audit["detectors"]],
        "components": [
            {**item, "sentence": _components_sentence(item)} for item in audit["components"]
        ],
    }


def _detector(item: Json) -> dict[str, Any]:
    name, rows = item["name"], item["confounds"]
    confounds = [
        {**row, "called": called(row["feature"]), "sentence": _confound(name, row)} for row in rows
    ]
    strata = [{**division, "called": called(division["name"])} for division in item["strata"]]
    return {**item, "confounds": confounds, "strata": strata}


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
        yield "reliability", name, _reliability_sentence(name, item["reliability"])
        yield "undefined", name, _undefined(item, audit["undefined"])
    for item in audit["components"]:
        yield "components", None, _components_sentence(item)
    yield "agreement", None, _agreement_sentence(audit["agreement"])
    for code, sentence in _leakage_sentence(audit["leakage"], made):
        yield code, None, sentence


def _undefined(item: Json, policy: str) -> str:
    missing = item["n_undefined"]
    return say("audit.undefined", item, policy=policy) if sum(missing.values()) else ""


def _confound(name: str, row: Json) -> str:
    """Say what one feature has to do with one detector."""
    verdict, row = row["verdict"], {**row, "name": name}
    if verdict == "is the score":
        return say("audit.is_the_score", row)
    if verdict == "nothing to explain":
        return say("audit.nothing_to_explain", row)
    if verdict == "tells the label":
        return say("audit.tells_the_label", row)
    if verdict not in EXPLAINS or row["matched"]["estimate"] is None:
        return say("audit.unknown", row)
    turned = verdict == "explains" and _turned(row)
    return say("audit.explains", row, explains=EXPLAINS[verdict], turned=turned)


def _turned(row: Json) -> bool:
    """Whether matched pairs are shown to be ranked the other way round."""
    matched, area = row["matched"], row["auroc"]["estimate"]
    if matched["lower"] is None or matched["upper"] is None or area is None:
        return False
    return bool(matched["upper"] < 0.5 if area > 0.5 else matched["lower"] > 0.5)


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
            more = f" {say('audit.so_do', others=_features(others))}" if others else ""
            return _confound(name, surest) + more, surest
    if not (innocent := [row for row in rows if row["verdict"] == "does not explain"]):
        return say("audit.cannot_tell", about), None
    least = min(innocent, key=lambda row: abs((row["matched"]["estimate"] or 0.5) - 0.5))
    text = say(
        "audit.not_explained",
        about,
        innocent=_features(innocent),
        least=least["feature"],
        matched=least["matched"],
        unclear=_features([row for row in rows if row["verdict"] == "cannot tell"]),
    )
    return text, None


def _features(rows: Sequence[Json]) -> list[str]:
    return [called(row["feature"]) for row in rows]


def _lead(name: str, rows: Sequence[Json]) -> str:
    """Say which features rank the answers better than the detector, the best of them first."""
    better = [
        row
        for row in rows
        if row["verdict"] != "is the score" and (row["lead"]["lower"] or 0.0) > 0.0
    ]
    if not better or (better[0]["auroc"]["estimate"] or 0.0) < 0.5:
        return ""
    better.sort(key=lambda row: (-(row["lead"]["estimate"] or 0.0), row["feature"]))
    best, *others = better
    added = added_to(name, called(best["feature"]), best["added"])
    return say("audit.lead", name=name, best=best, others=_features(others), added=added)


def added_to(name: str, subject: str, added: Json) -> str:
    """Say what a detector adds to a feature that ranks better alone."""
    return say("audit.added", added, name=name, subject=subject, small=SMALL)


def _strata_sentence(name: str, division: Json, confidence: float) -> str:
    """Say that a detector works unevenly, where the corrected test shows it."""
    test = division["test"]
    if test["p_holm"] is None or test["p_holm"] > 1.0 - confidence:
        return ""
    thirds = division["kind"] == "thirds"
    known = [
        {
            **row,
            "called": f"{third(division['name'], row['name'])} third"
            if thirds
            else f'"{row["name"]}"',
        }
        for row in division["strata"]
        if row["auroc"]["estimate"] is not None and row["name"] not in test["left_out"]
    ]
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


def _reliability_sentence(name: str, section: Json | None) -> str:
    """Say whether the scores can be read as probabilities."""
    if section is None or section["ece_isotonic"] is None or section["by_chance"] is None:
        return ""
    predicted = [item["predicted"] for item in section["isotonic"]]
    flat = max(predicted) - min(predicted) < 0.02
    return say("audit.reliability", section, name=name, is_flat=flat)


def _components_sentence(item: Json) -> str:
    """Say which angle carries the index."""
    areas = [f"{estimate(row['auroc'])} for {COMPONENTS[row['name']]}" for row in item["rows"]]
    driver = item["driver"] and COMPONENTS[item["driver"]]
    return say("audit.components", areas=areas, driver=driver)


def _agreement_sentence(pairs: Sequence[Json]) -> str:
    """Say how far detectors agree."""
    known = [pair for pair in pairs if pair["spearman"]["estimate"] is not None]
    if not known:
        return ""
    lowest = min(known, key=lambda pair: pair["spearman"]["estimate"])
    if len(known) == 1:
        return say("audit.agreement_of_two", lowest)
    mean = sum(pair["spearman"]["estimate"] for pair in known) / len(known)
    return say("audit.agreement", lowest, mean=mean)


def _leakage_sentence(section: Json, made: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield what could give labels away: a code and a sentence each."""
    for code, item in _leaks(section, made):
        yield code, say(f"audit.{code}", item)


def _leaks(section: Json, made: Container[str]) -> Iterator[tuple[str, Json]]:
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
