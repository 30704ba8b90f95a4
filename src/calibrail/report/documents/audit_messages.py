"""Conclusions of an audit: which message about which detector."""

from collections.abc import Container, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from calibrail.report.document import Json
from calibrail.report.messages import say
from calibrail.report.text import COMPONENTS, EXPLAINS, called, estimate, third
from calibrail.scores.base import Scale

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
        "components": [{**item, "sentence": _components(item)} for item in audit["components"]],
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
            yield "strata", name, _strata(name, division, audit["confidence"])
        yield "reliability", name, _reliability(name, item["reliability"])
        yield "undefined", name, _undefined(item, audit["undefined"])
    for item in audit["components"]:
        yield "components", None, _components(item)
    yield "agreement", None, _agreement(audit["agreement"])
    for code, sentence in _leakage(audit["leakage"], made):
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


def _strata(name: str, division: Json, confidence: float) -> str:
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


def _reliability(name: str, section: Json | None) -> str:
    """Say whether the scores can be read as probabilities."""
    if section is None or section["ece_isotonic"] is None or section["by_chance"] is None:
        return ""
    predicted = [item["predicted"] for item in section["isotonic"]]
    flat = max(predicted) - min(predicted) < 0.02
    return say("audit.reliability", section, name=name, is_flat=flat)


def _components(item: Json) -> str:
    """Say which angle carries the index."""
    areas = [f"{estimate(row['auroc'])} for {COMPONENTS[row['name']]}" for row in item["rows"]]
    driver = item["driver"] and COMPONENTS[item["driver"]]
    return say("audit.components", areas=areas, driver=driver)


def _agreement(pairs: Sequence[Json]) -> str:
    """Say how far detectors agree."""
    known = [pair for pair in pairs if pair["spearman"]["estimate"] is not None]
    if not known:
        return ""
    lowest = min(known, key=lambda pair: pair["spearman"]["estimate"])
    if len(known) == 1:
        return say("audit.agreement_of_two", lowest)
    mean = sum(pair["spearman"]["estimate"] for pair in known) / len(known)
    return say("audit.agreement", lowest, mean=mean)


def _leakage(section: Json, made: Container[str]) -> Iterator[tuple[str, str]]:
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
