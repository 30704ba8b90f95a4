"""What does an audit show, in plain sentences?"""

from collections.abc import Iterator, Sequence
from typing import Any

from calibrail.phrases import count, listed, percent
from calibrail.report.blocks import Json
from calibrail.report.documents.audit_words import COMPONENTS, called, capital, spanned, third
from calibrail.report.phrases import estimate


def with_sentences(audit: Json) -> dict[str, Any]:
    """Return the content of ``audit.json``: what was measured, and what it shows in words.

    Parameters
    ----------
    audit : mapping
        ``Audit.to_dict()``.
    """
    detectors = [_detector(item) for item in audit["detectors"]]
    components = [{**item, "sentence": _components(item)} for item in audit["components"]]
    conclusions = [
        {"code": code, "detector": name, "message": message}
        for code, name, message in _conclusions(audit)
        if message
    ]
    content: dict[str, Any] = {}
    for key, value in audit.items():
        if key == "detectors":
            content["conclusions"] = conclusions
        content[key] = value
    return {**content, "detectors": detectors, "components": components}


def _detector(item: Json) -> dict[str, Any]:
    confounds = [
        {
            **row,
            "called": called(row["feature"]),
            "sentence": _confound(item["name"], row),
        }
        for row in item["confounds"]
    ]
    strata = [{**division, "called": called(division["name"])} for division in item["strata"]]
    return {**item, "confounds": confounds, "strata": strata}


def _conclusions(audit: Json) -> Iterator[tuple[str, str | None, str]]:
    """Yield code, detector and sentence: what explains each result first, the data's own last."""
    for item in audit["detectors"]:
        name, rows = item["name"], item["confounds"]
        main = _main(name, rows)
        yield "reversed", name, _reversed(item)
        yield "lead", name, _lead(name, rows)
        yield "confounds", name, main or _result(name, item["auroc"])
        yield "length", name, _length(name, rows, main)
    for item in audit["detectors"]:
        name = item["name"]
        for division in item["strata"]:
            yield "strata", name, _strata(name, division, audit["confidence"])
        yield "reliability", name, _reliability(name, item["reliability"])
        yield "undefined", name, _undefined(item, audit["undefined"])
    for item in audit["components"]:
        yield "components", None, _components(item)
    yield "agreement", None, _agreement(audit["agreement"])
    for code, sentence in _leakage(audit["leakage"]):
        yield code, None, sentence


def _undefined(item: Json, policy: str) -> str:
    missing = item["n_undefined"]
    if not sum(missing.values()):
        return ""
    meaning = "as if passed" if policy == "pass" else "above every other"
    return (
        f"{item['name']} is undefined for {missing['hallucinated']:,} hallucinated and "
        f"{missing['faithful']:,} faithful answers; they rank {meaning} (policy: {policy})."
    )


#: How a sentence about one feature goes on, by its verdict.
_EXPLAINS = {
    "explains": "explains the result of",
    "explains most": "explains most of the result of",
    "explains part": "explains part of the result of",
    "does not explain": "does not explain the result of",
}


def _confound(name: str, row: Json) -> str:
    """Say what one feature has to do with one detector."""
    feature, verdict, matched = called(row["feature"]), row["verdict"], row["matched"]
    if verdict == "is the score":
        return f"{capital(feature)} is what {name} measures: the two rank the answers alike."
    if verdict == "nothing to explain":
        return (
            f"{name} is not shown to tell the classes apart (AUROC {spanned(row['auroc'])}), so "
            f"there is nothing for {feature} to explain."
        )
    unknown = f"Whether {feature} explains {name} cannot be told from this data"
    if matched["estimate"] is None:
        return f"{unknown}: {matched['reason']}."
    change = (
        f"AUROC {estimate(row['auroc'])} over all pairs of a hallucinated and a faithful answer, "
        f"{spanned(matched)} over pairs that are alike in it"
    )
    if verdict not in _EXPLAINS:
        return f"{unknown}: {change}."
    away = verdict == "explains" and not _same_side(row)
    other = ", where it points the other way" if away else ""
    return f"{capital(feature)} {_EXPLAINS[verdict]} {name}: {change}{other}."


def _same_side(row: Json) -> bool:
    """Whether matched pairs are not shown to be ranked the other way round."""
    matched, area = row["matched"], row["auroc"]["estimate"]
    if matched["lower"] is None or matched["upper"] is None or area is None:
        return True
    return bool(matched["upper"] >= 0.5 if area > 0.5 else matched["lower"] <= 0.5)


def _main(name: str, rows: Sequence[Json]) -> str:
    """Say in one sentence what surface features have to do with a detector's result."""
    rows = [row for row in rows if row["verdict"] != "is the score"]
    if not rows:
        return ""
    area = rows[0]["auroc"]
    by_verdict = {
        verdict: [row for row in rows if row["verdict"] == verdict]
        for verdict in ("nothing to explain", *_EXPLAINS, "cannot tell")
    }
    if len(by_verdict["nothing to explain"]) == len(rows):
        return (
            f"{name} is not shown to tell hallucinated from faithful answers (AUROC "
            f"{spanned(area)}), so there is no result to explain."
        )
    for verdict in ("explains", "explains most", "explains part"):
        if chosen := by_verdict[verdict]:
            # The surest: of what is shown to be explained, the largest share.
            surest = max(chosen, key=lambda row: row["share"]["lower"] or 0.0)
            others = [row for row in chosen if row is not surest and verdict != "explains part"]
            return _confound(name, surest) + (f" So {_do(others)}." if others else "")
    if not (innocent := by_verdict["does not explain"]):
        return (
            f"Whether surface features explain the result of {name} (AUROC {estimate(area)}) "
            "cannot be told from this data: too few pairs are alike, or their intervals too wide."
        )
    least = min(innocent, key=lambda row: abs((row["matched"]["estimate"] or 0.5) - 0.5))
    rest = ""
    if unclear := by_verdict["cannot tell"]:
        rest = f" For {_features(unclear)} the data cannot tell."
    return (
        f"The result of {name} (AUROC {estimate(area)}) is not explained by {_features(innocent)}: "
        f"over pairs that are alike in {called(least['feature'])}, where it keeps least, it has "
        f"{spanned(least['matched'])}.{rest}"
    )


def _features(rows: Sequence[Json]) -> str:
    return listed([called(row["feature"]) for row in rows])


def _do(rows: Sequence[Json]) -> str:
    return f"{'do' if len(rows) > 1 else 'does'} {_features(rows)}"


def _result(name: str, area: Json) -> str:
    """Say what a detector reaches where no feature can explain it."""
    return (
        f"{name} has AUROC {spanned(area)}. What explains it cannot be said without texts, or a "
        "column that divides the answers (--by)."
    )


def _length(name: str, rows: Sequence[Json], main: str) -> str:
    """Say what response length has to do with it, unless that was said."""
    row = next((row for row in rows if row["feature"] == "length"), None)
    if row is None or row["verdict"] in ("is the score", "nothing to explain"):
        return ""
    sentence = _confound(name, row)
    return "" if main.startswith(sentence) else sentence


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
    best = better[0]
    subject, area, added = called(best["feature"]), best["feature_auroc"]["estimate"], best["added"]
    turned = " (turned round)" if area < 0.5 else ""
    also = f"; so {_do(better[1:])}" if len(better) > 1 else ""
    last = f"No detector is needed for what {name}"
    if added["estimate"] is not None and added["lower"] is not None:
        span = f"({added['lower']:.3f} to {added['upper']:.3f})"
        last = f"{name} is not shown to add anything to {subject} {span}"
        if added["lower"] > 0.0:
            last = f"{name} adds {added['estimate']:.3f} {span} to {subject}"
        last += ": no detector is needed for what it"
    return (
        f"{capital(subject)} alone tells hallucinated from faithful answers better than {name}, "
        f"AUROC {max(area, 1.0 - area):.3f}{turned} against {estimate(best['auroc'])}{also}. "
        f"{last} reaches on this data."
    )


def _strata(name: str, division: Json, confidence: float) -> str:
    """Say that a detector works unevenly, where the corrected test shows it."""
    test = division["test"]
    if test["p_holm"] is None or test["p_holm"] > 1.0 - confidence:
        return ""
    known = [
        row
        for row in division["strata"]
        if row["auroc"]["estimate"] is not None and row["name"] not in test["left_out"]
    ]
    known.sort(key=lambda row: row["auroc"]["estimate"])
    low, high = known[0], known[-1]

    def where(row: Json) -> str:
        if division["kind"] == "thirds":
            return f"{third(division['name'], row['name'])} third"
        return f'"{row["name"]}"'

    return (
        f"{name} does not work equally well on all answers: by {called(division['name'])}, its "
        f"AUROC is {spanned(low['auroc'])} ({where(low)}) to {spanned(high['auroc'])} "
        f"({where(high)}); p = {test['p_holm']:.1g}, corrected for the number of divisions."
    )


def _reversed(item: Json) -> str:
    """Say that a detector points away from hallucinations, everywhere or in some strata."""
    if item["reversed"]:
        return (
            f"{item['name']} runs the wrong way: AUROC {spanned(item['auroc'])}, so faithful "
            "answers score higher than hallucinated ones. Nothing was turned round."
        )
    where = [
        f"{called(division['name'])}: {third(division['name'], stratum['name'])}"
        for division in item["strata"]
        for stratum in division["strata"]
        if stratum["reversed"]
    ]
    return f"{item['name']} runs the wrong way in {listed(where)}." if where else ""


def _reliability(name: str, section: Json | None) -> str:
    """Say whether the scores can be read as probabilities."""
    if section is None or section["ece_isotonic"] is None or section["by_chance"] is None:
        return ""
    first, last = (section["deciles"][place]["rate"]["estimate"] for place in (0, -1))
    predicted = [item["predicted"] for item in section["isotonic"]]
    if max(predicted) - min(predicted) < 0.02:
        after = "isotonic calibration gives all answers about the same probability"
    else:
        after = (
            f"after isotonic calibration by {percent(section['ece_isotonic'])}, where chance alone "
            f"makes about {percent(section['by_chance'])}"
        )
    return (
        f"Read as probabilities, the scores of {name} are off by {percent(section['ece_scaled'])} "
        f"on average (ECE); {after}. Of its lowest tenth {percent(first)} are hallucinated, of its "
        f"highest {percent(last)}."
    )


def _components(item: Json) -> str:
    """Say which angle carries the index."""
    areas = [f"{estimate(row['auroc'])} for {COMPONENTS[row['name']]}" for row in item["rows"]]
    driver = item["driver"]
    carries = (
        "which of the two angles carries it is not shown"
        if driver is None
        else f"{COMPONENTS[driver]} carries it"
    )
    return f"Taken apart, the index has AUROC {listed(areas)}: {carries}."


def _agreement(pairs: Sequence[Json]) -> str:
    """Say how far detectors agree."""
    known = [pair for pair in pairs if pair["spearman"]["estimate"] is not None]
    if not known:
        return ""
    low = min(known, key=lambda pair: pair["spearman"]["estimate"])
    if len(known) == 1:
        top = low["top"][1]
        return (
            f"{low['first']} and {low['second']} agree with a rank correlation of "
            f"{spanned(low['spearman'], 2)}; of the most suspicious {percent(top['share'])} of "
            f"each, {percent(top['overlap'])} are the same ({percent(top['by_chance'])} by chance)."
        )
    mean = sum(pair["spearman"]["estimate"] for pair in known) / len(known)
    return (
        f"The detectors' rank correlations have a mean of {mean:.2f}; the lowest is "
        f"{spanned(low['spearman'], 2)}, between {low['first']} and {low['second']}."
    )


def _leakage(section: Json) -> Iterator[tuple[str, str]]:
    """Yield what could give labels away: a code and a sentence each."""
    places = {"split": "on the other side of the split", "group": "in other groups"}
    for item in section["copies"]:
        if item["n"] and item["across"] in places:
            answers = count(
                item["n"], "answer has a near-duplicate", "answers have near-duplicates"
            )
            yield (
                f"copies_across_{item['across']}",
                f"{answers} {places[item['across']]} ({item['exact']:,} identical): give alike "
                "answers one group.",
            )
    for item in section["shared"]:
        if item["n_both"] and item["what"] == "whole":
            texts = count(item["n_both"], "text occurs", "texts occur")
            yield (
                "contradictory_labels",
                f"{texts} with both labels, question, contexts and answer the same: at least one "
                "label of each is wrong.",
            )
        elif item["n_both"] and item["what"] == "answer":
            yield (
                "answer_with_both_labels",
                f"{count(item['n_both'], 'answer text occurs', 'answer texts occur')} with both "
                f"labels (to other questions or contexts), in {item['n_answers_both']:,} answers.",
            )
    for item in section["giveaways"]:
        column, area = item["column"], item["auroc"]
        if area["lower"] is None or area["upper"] is None or area["lower"] <= 0.5 <= area["upper"]:
            continue
        if item["n_mixed"] and not item["n_alike"] and area["estimate"] == 0.0:
            yield (
                "paired_by_design",
                f"Every {column} with several answers holds both labels in equal number: whoever "
                "knows the label of one answer knows the other's. Keep each on one side of a "
                "split.",
            )
        else:
            yield (
                "label_from_group",
                f"The labels of the other answers of its {column} tell an answer's label with "
                f"AUROC {spanned(area)}, without reading it.",
            )
    if n := section["n_ids_repeated"]:
        yield "ids_repeated", f"{count(n, 'id occurs', 'ids occur')} repeatedly."
