"""Sentences of an audit."""

from collections.abc import Container, Iterator, Sequence
from itertools import takewhile
from typing import Any, Final

from calibrail.formatting import count, listed, percent
from calibrail.report.document import Json
from calibrail.report.text import (
    COMPONENTS,
    EXPLAINS,
    called,
    capital,
    estimate,
    share,
    third,
    with_bounds,
)
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
        main = _main(name, rows) or (
            f"{name} has AUROC {with_bounds(item['auroc'])}. What explains it cannot be said "
            "without texts, or a column that divides the answers (--by)."
        )
        yield "reversed", name, _reversed(item)
        yield "lead", name, _lead(name, rows)
        yield "confounds", name, main
        length = next((row for row in rows if row["feature"] == "length"), None)
        if length and length["verdict"] not in ("is the score", "nothing to explain"):
            sentence = _confound(name, length)
            yield "length", name, "" if main.startswith(sentence) else sentence
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
    if not sum(missing.values()):
        return ""
    meaning = "as if passed" if policy == "pass" else "above every other"
    return (
        f"{item['name']} is undefined for {missing['hallucinated']:,} hallucinated and "
        f"{missing['faithful']:,} faithful answers; they rank {meaning} (policy: {policy})."
    )


def _confound(name: str, row: Json) -> str:
    """Say what one feature has to do with one detector."""
    feature, verdict, matched = called(row["feature"]), row["verdict"], row["matched"]
    if verdict == "is the score":
        return f"{capital(feature)} is what {name} measures: the two rank the answers alike."
    if verdict == "nothing to explain":
        return (
            f"{name} is not shown to tell the classes apart (AUROC {with_bounds(row['auroc'])}), "
            f"so there is nothing for {feature} to explain."
        )
    if verdict == "tells the label":
        return (
            f"{capital(feature)} tells the label by itself (AUROC {estimate(row['feature_auroc'])} "
            "from the other answers with its value): it was probably made from the label, or the "
            f"label from it. Nothing about {name} follows; leave it out of --by."
        )
    unknown = f"Whether {feature} explains {name} cannot be told from this data"
    if matched["estimate"] is None:
        return f"{unknown}: {matched['reason']}."
    change = (
        f"AUROC {estimate(row['auroc'])} over all pairs of a hallucinated and a faithful answer, "
        f"{with_bounds(matched)} over pairs that are alike in it"
    )
    if verdict not in EXPLAINS:
        return f"{unknown}: {change}."
    if verdict == "explains" and _turned(row):
        change += ", where it points the other way"
    return f"{capital(feature)} {EXPLAINS[verdict]} the result of {name}: {change}."


def _turned(row: Json) -> bool:
    """Whether matched pairs are shown to be ranked the other way round."""
    matched, area = row["matched"], row["auroc"]["estimate"]
    if matched["lower"] is None or matched["upper"] is None or area is None:
        return False
    return bool(matched["upper"] < 0.5 if area > 0.5 else matched["lower"] > 0.5)


def _main(name: str, rows: Sequence[Json]) -> str:
    """Say in one sentence what surface features have to do with a detector's result."""
    rows = [row for row in rows if row["verdict"] != "is the score"]
    if not rows:
        return ""
    area = rows[0]["auroc"]
    if all(row["verdict"] == "nothing to explain" for row in rows):
        return (
            f"{name} is not shown to tell hallucinated from faithful answers (AUROC "
            f"{with_bounds(area)}), so there is no result to explain."
        )
    for verdict in ("explains", "explains most", "explains part"):
        if chosen := [row for row in rows if row["verdict"] == verdict]:
            # The surest: of what is shown to be explained, the largest share.
            surest = max(chosen, key=lambda row: row["share"]["lower"] or 0.0)
            others = [row for row in chosen if row is not surest and verdict != "explains part"]
            return _confound(name, surest) + (f" So {_do(others)}." if others else "")
    if not (innocent := [row for row in rows if row["verdict"] == "does not explain"]):
        return (
            f"Whether surface features explain the result of {name} (AUROC {estimate(area)}) "
            "cannot be told from this data: too few pairs are alike, or their intervals too wide."
        )
    least = min(innocent, key=lambda row: abs((row["matched"]["estimate"] or 0.5) - 0.5))
    unclear = [row for row in rows if row["verdict"] == "cannot tell"]
    rest = f" For {_features(unclear)} the data cannot tell." if unclear else ""
    return (
        f"The result of {name} (AUROC {estimate(area)}) is not explained by {_features(innocent)}: "
        f"over pairs that are alike in {called(least['feature'])}, where it keeps least, it has "
        f"{with_bounds(least['matched'])}.{rest}"
    )


def _features(rows: Sequence[Json]) -> str:
    return listed([called(row["feature"]) for row in rows])


def _do(rows: Sequence[Json]) -> str:
    return f"{'do' if len(rows) > 1 else 'does'} {_features(rows)}"


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
    subject, area = called(best["feature"]), best["feature_auroc"]["estimate"]
    turned = " (turned round)" if area < 0.5 else ""
    also = f"; so {_do(better[1:])}" if len(better) > 1 else ""
    return (
        f"{capital(subject)} alone tells hallucinated from faithful answers better than {name}, "
        f"AUROC {max(area, 1.0 - area):.3f}{turned} against {estimate(best['auroc'])}{also}. "
        f"{added_to(name, subject, best['added'])}"
    )


def added_to(name: str, subject: str, added: Json) -> str:
    """Say what a detector adds to a feature that ranks better alone."""
    if added["estimate"] is None or added["lower"] is None or added["upper"] is None:
        return f"What {name} adds to {subject} cannot be told from this data."
    span = f"({added['lower']:.3f} to {added['upper']:.3f})"
    needless = "no detector is needed for what it reaches on this data."
    if added["lower"] <= 0.0:
        return f"{name} is not shown to add anything to {subject} {span}: {needless}"
    adds = f"{name} adds {added['estimate']:.3f} {span} to the AUROC of {subject}"
    if added["upper"] < SMALL:
        return f"{adds}, less than {SMALL}: {needless}"
    return f"{adds}: together they tell more than either alone."


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

    def area(row: Json) -> str:
        which = f'"{row["name"]}"'
        if division["kind"] == "thirds":
            which = f"{third(division['name'], row['name'])} third"
        return f"{with_bounds(row['auroc'])} ({which})"

    return (
        f"{name} does not work equally well on all answers: by {called(division['name'])}, its "
        f"AUROC is {area(known[0])} to {area(known[-1])}; p = {test['p_holm']:.1g}, corrected for "
        "the number of divisions."
    )


def _reversed(item: Json) -> str:
    """Say that a detector points away from hallucinations, everywhere or in some strata."""
    if item["reversed"]:
        return (
            f"{item['name']} runs the wrong way: AUROC {with_bounds(item['auroc'])}, so "
            f"{Scale.of(item['score']).reversed}. Nothing was turned round."
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
    predicted = [item["predicted"] for item in section["isotonic"]]
    after = "isotonic calibration gives all answers about the same probability"
    if max(predicted) - min(predicted) >= 0.02:
        after = (
            f"after isotonic calibration by {percent(section['ece_isotonic'])}, where chance alone "
            f"makes about {percent(section['by_chance'])}"
        )
    return (
        f"Read as probabilities, the scores of {name} are off by {percent(section['ece_scaled'])} "
        f"on average (ECE); {after}. Of its least suspicious tenth "
        f"{share(section['deciles'][0]['rate'])} are hallucinated, of its most suspicious "
        f"{share(section['deciles'][-1]['rate'])}."
    )


def _components(item: Json) -> str:
    """Say which angle carries the index."""
    areas = [f"{estimate(row['auroc'])} for {COMPONENTS[row['name']]}" for row in item["rows"]]
    carries = "which of the two angles carries it is not shown"
    if item["driver"] is not None:
        carries = f"{COMPONENTS[item['driver']]} carries it"
    return f"Taken apart, the index has AUROC {listed(areas)}: {carries}."


def _agreement(pairs: Sequence[Json]) -> str:
    """Say how far detectors agree."""
    known = [pair for pair in pairs if pair["spearman"]["estimate"] is not None]
    if not known:
        return ""
    low = min(known, key=lambda pair: pair["spearman"]["estimate"])
    lowest = with_bounds(low["spearman"], 2)
    if len(known) == 1:
        top = low["top"][1]
        return (
            f"{low['first']} and {low['second']} agree with a rank correlation of {lowest}; of the "
            f"most suspicious {percent(top['share'])} of each, {percent(top['overlap'])} are the "
            f"same ({percent(top['by_chance'])} by chance)."
        )
    mean = sum(pair["spearman"]["estimate"] for pair in known) / len(known)
    return (
        f"The detectors' rank correlations have a mean of {mean:.2f}; the lowest is {lowest}, "
        f"between {low['first']} and {low['second']}."
    )


def _leakage(section: Json, made: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield what could give labels away: a code and a sentence each."""
    places = {"split": "on the other side of the split", "group": "in other groups"}
    for item in section["copies"]:
        if item["n"] and item["across"] in places:
            n = count(item["n"], "answer has a near-duplicate", "answers have near-duplicates")
            yield (
                f"copies_across_{item['across']}",
                f"{n} {places[item['across']]} ({item['exact']:,} identical): give alike answers "
                "one group.",
            )
    for item in section["shared"]:
        if item["n_both"] and item["what"] == "whole":
            yield (
                "contradictory_labels",
                f"{count(item['n_both'], 'text occurs', 'texts occur')} with both labels, "
                "question, contexts and answer the same: at least one label of each is wrong.",
            )
        elif item["n_both"] and item["what"] == "answer":
            yield (
                "answer_with_both_labels",
                f"{count(item['n_both'], 'answer text occurs', 'answer texts occur')} with both "
                f"labels (to other questions or contexts), in {item['n_answers_both']:,} answers.",
            )
    for item in section["giveaways"]:
        if item["column"] in made:
            continue
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
                f"AUROC {with_bounds(area)}, without reading it.",
            )
    if n := section["n_ids_repeated"]:
        yield "ids_repeated", f"{count(n, 'id occurs', 'ids occur')} repeatedly."
