"""What does an audit show, in plain sentences?"""

from __future__ import annotations

from collections.abc import Sequence

from calibrail.evaluation.audit.components import Components
from calibrail.evaluation.audit.confounds import Confound
from calibrail.evaluation.audit.detector_pairs import Pair
from calibrail.evaluation.audit.leakage import Leakage
from calibrail.evaluation.audit.reliability import Reliability
from calibrail.evaluation.audit.strata import Stratification
from calibrail.evaluation.audit.wording import COMPONENTS, called, spanned, third, three
from calibrail.evaluation.stats.measure import Measure
from calibrail.evaluation.stats.phrases import count, listed, percent


def confound_sentence(name: str, row: Confound) -> str:
    """Say what one feature has to do with one detector."""
    feature = called(row.feature)
    subject = feature[0].upper() + feature[1:]
    if row.verdict == "is the score":
        return f"{subject} is what {name} measures: the two rank the answers alike."
    if row.verdict == "nothing to explain":
        return (
            f"{name} is not shown to tell the classes apart (AUROC {spanned(row.auroc)}), so there "
            f"is nothing for {feature} to explain."
        )
    if row.matched.estimate is None:
        return (
            f"Whether {feature} explains {name} cannot be told from this data: "
            f"{row.matched.reason}."
        )
    change = (
        f"AUROC {three(row.auroc)} over all pairs of a hallucinated and a faithful answer, "
        f"{spanned(row.matched)} over pairs that are alike in it"
    )
    if row.verdict == "explains":
        away = "" if _same_side(row) else ", where it points the other way"
        return f"{subject} explains the result of {name}: {change}{away}."
    if row.verdict == "explains most":
        return f"{subject} explains most of the result of {name}: {change}."
    if row.verdict == "explains part":
        return f"{subject} explains part of the result of {name}: {change}."
    if row.verdict == "does not explain":
        return f"{subject} does not explain the result of {name}: {change}."
    return f"Whether {feature} explains {name} cannot be told from this data: {change}."


def main_sentence(name: str, rows: Sequence[Confound]) -> str | None:
    """Say in one sentence what surface features have to do with a detector's result."""
    rows = [row for row in rows if row.verdict != "is the score"]
    if not rows:
        return None
    if all(row.verdict == "nothing to explain" for row in rows):
        return (
            f"{name} is not shown to tell hallucinated from faithful answers (AUROC "
            f"{spanned(rows[0].auroc)}), so there is no result to explain."
        )
    for verdict in ("explains", "explains most"):
        chosen = [row for row in rows if row.verdict == verdict]
        if chosen:
            # The surest: of what is shown to be explained, the largest share.
            best = max(chosen, key=lambda row: row.share.lower or 0.0)
            text = confound_sentence(name, best)
            others = [called(row.feature) for row in chosen if row is not best]
            also = f" So {'do' if len(others) > 1 else 'does'} {listed(others)}." if others else ""
            return text + also
    part = [row for row in rows if row.verdict == "explains part"]
    if part:
        best = max(part, key=lambda row: row.share.lower or 0.0)
        return confound_sentence(name, best)
    told = [row for row in rows if row.verdict == "does not explain"]
    if told:
        least = min(told, key=lambda row: abs((row.matched.estimate or 0.5) - 0.5))
        names = listed([called(row.feature) for row in told])
        open_ = [called(row.feature) for row in rows if row.verdict == "cannot tell"]
        rest = f" For {listed(open_)} the data cannot tell." if open_ else ""
        return (
            f"The result of {name} (AUROC {three(rows[0].auroc)}) is not explained by {names}: "
            f"over pairs that are alike in {called(least.feature)}, where it keeps least, it has "
            f"{spanned(least.matched)}.{rest}"
        )
    return (
        f"Whether surface features explain the result of {name} (AUROC {three(rows[0].auroc)}) "
        "cannot be told from this data: too few pairs are alike, or their intervals too wide."
    )


def result_sentence(name: str, area: Measure) -> str:
    """Say what a detector reaches where no feature can explain it."""
    return (
        f"{name} has AUROC {spanned(area)}. What explains it cannot be said without texts, or a "
        "column that divides the answers (--by)."
    )


def length_sentence(name: str, rows: Sequence[Confound], said: str | None) -> str | None:
    """Say what response length has to do with it, unless that was said."""
    row = next((row for row in rows if row.feature == "length"), None)
    if row is None or row.verdict in ("is the score", "nothing to explain"):
        return None
    sentence = confound_sentence(name, row)
    return None if said is not None and said.startswith(sentence) else sentence


def lead_sentence(name: str, rows: Sequence[Confound]) -> str | None:
    """Say which features rank the answers better than the detector, the best of them first."""
    better = [
        row
        for row in rows
        if row.verdict != "is the score" and row.lead.lower is not None and row.lead.lower > 0.0
    ]
    if not better or (better[0].auroc.estimate or 0.0) < 0.5:
        return None
    better.sort(key=lambda row: (-(row.lead.estimate or 0.0), row.feature))
    best = better[0]
    assert best.feature_auroc.estimate is not None
    subject = called(best.feature)
    fewer = best.feature_auroc.estimate < 0.5
    own = max(best.feature_auroc.estimate, 1.0 - best.feature_auroc.estimate)
    others = [called(row.feature) for row in better[1:]]
    also = f"; so {'do' if len(others) > 1 else 'does'} {listed(others)}" if others else ""
    added = f"No detector is needed for what {name}"
    if best.added.estimate is not None and best.added.lower is not None:
        assert best.added.upper is not None
        adds = f"({best.added.lower:.3f} to {best.added.upper:.3f})"
        if best.added.lower > 0.0:
            added = f"{name} adds {best.added.estimate:.3f} {adds} to {subject}"
        else:
            added = f"{name} is not shown to add anything to {subject} {adds}"
        added += ": no detector is needed for what it"
    return (
        f"{subject[0].upper()}{subject[1:]} alone tells hallucinated from faithful answers better "
        f"than {name}, AUROC {own:.3f}{' (turned round)' if fewer else ''} against "
        f"{three(best.auroc)}{also}. {added} reaches on this data."
    )


def strata_sentence(name: str, item: Stratification, confidence: float) -> str | None:
    """Say that a detector works unevenly, where the corrected test shows it."""
    if item.test.p_holm is None or item.test.p_holm > 1.0 - confidence:
        return None
    known = [
        row for row in item.strata if row.auroc.estimate is not None and row.name not in
        item.test.left_out
    ]  # fmt: skip
    low = min(known, key=lambda row: row.auroc.estimate or 0.0)
    high = max(known, key=lambda row: row.auroc.estimate or 0.0)
    places = [_stratum(item, row.name) for row in (low, high)]
    return (
        f"{name} does not work equally well on all answers: by {called(item.name)}, its AUROC is "
        f"{spanned(low.auroc)} ({places[0]}) to {spanned(high.auroc)} ({places[1]}); p = "
        f"{item.test.p_holm:.1g}, corrected for the number of divisions."
    )


def reversed_sentence(name: str, area: Measure, where: Sequence[str]) -> str | None:
    """Say that a detector points away from hallucinations, everywhere or in some strata."""
    if area.upper is not None and area.upper < 0.5:
        return (
            f"{name} runs the wrong way: AUROC {spanned(area)}, so faithful answers score higher "
            "than hallucinated ones. Nothing was turned round."
        )
    if not where:
        return None
    return f"{name} runs the wrong way in {listed(list(where))}."


def reliability_sentence(name: str, found: Reliability | None) -> str | None:
    """Say whether the scores can be read as probabilities."""
    if found is None or found.ece_isotonic is None or found.by_chance is None:
        return None
    first, last = found.deciles[0].rate, found.deciles[-1].rate
    assert first.estimate is not None and last.estimate is not None
    predicted = [item.predicted for item in found.isotonic]
    if max(predicted) - min(predicted) < 0.02:
        after = "isotonic calibration gives all answers about the same probability"
    else:
        after = (
            f"after isotonic calibration by {percent(found.ece_isotonic)}, where chance alone "
            f"makes about {percent(found.by_chance)}"
        )
    return (
        f"Read as probabilities, the scores of {name} are off by {percent(found.ece_scaled)} on "
        f"average (ECE); {after}. Of its lowest tenth {percent(first.estimate)} are hallucinated, "
        f"of its highest {percent(last.estimate)}."
    )


def components_sentence(found: Components) -> str:
    """Say which angle carries the index."""
    by_name = {row.name: row.auroc for row in found.rows}
    parts = listed([f"{three(by_name[key])} for {COMPONENTS[key]}" for key in by_name])
    if found.driver is None:
        tail = "which of the two angles carries it is not shown"
    else:
        tail = f"{COMPONENTS[found.driver]} carries it"
    return f"Taken apart, the index has AUROC {parts}: {tail}."


def agreement_sentence(pairs: Sequence[Pair]) -> str | None:
    """Say how far detectors agree."""
    known = [pair for pair in pairs if pair.spearman.estimate is not None]
    if not known:
        return None
    low = min(known, key=lambda pair: pair.spearman.estimate or 0.0)
    if len(known) == 1:
        top = low.top[1]
        return (
            f"{low.first} and {low.second} agree with a rank correlation of "
            f"{spanned(low.spearman, 2)}; of the most suspicious {percent(top.share)} of each, "
            f"{percent(top.overlap)} are the same ({percent(top.by_chance)} by chance)."
        )
    mean = sum(pair.spearman.estimate or 0.0 for pair in known) / len(known)
    return (
        f"The detectors' rank correlations have a mean of {mean:.2f}; the lowest is "
        f"{spanned(low.spearman, 2)}, between {low.first} and {low.second}."
    )


def leakage_sentences(found: Leakage) -> list[tuple[str, str]]:
    """Return what could give labels away: a code and a sentence each."""
    said = []
    for item in found.copies:
        if item.n and item.across != "label":
            where = (
                "on the other side of the split" if item.across == "split" else "in other groups"
            )
            said.append((
                f"copies_across_{item.across}",
                f"{count(item.n, 'answer has a near-duplicate', 'answers have near-duplicates')} "
                f"{where} ({item.exact:,} identical): give alike answers one group.",
            ))  # fmt: skip
    for shared in found.shared:
        if not shared.n_both:
            continue
        if shared.what == "whole":
            said.append((
                "contradictory_labels",
                f"{count(shared.n_both, 'text occurs', 'texts occur')} with both labels, question, "
                "contexts and answer the same: at least one label of each is wrong.",
            ))  # fmt: skip
        elif shared.what == "answer":
            said.append((
                "answer_with_both_labels",
                f"{count(shared.n_both, 'answer text occurs', 'answer texts occur')} with both "
                f"labels (to other questions or contexts), in {shared.n_answers_both:,} answers.",
            ))  # fmt: skip
    for item_ in found.giveaways:
        area = item_.auroc
        if area.lower is None or area.upper is None or area.lower <= 0.5 <= area.upper:
            continue
        paired = item_.n_mixed and not item_.n_alike and area.estimate == 0.0
        if paired:
            said.append((
                "paired_by_design",
                f"Every {item_.column} with several answers holds both labels in equal number: "
                "whoever knows the label of one answer knows the other's. Keep each on one side "
                "of a split.",
            ))  # fmt: skip
        else:
            said.append((
                "label_from_group",
                f"The labels of the other answers of its {item_.column} tell an answer's label "
                f"with AUROC {spanned(area)}, without reading it.",
            ))  # fmt: skip
    if found.n_ids_repeated:
        said.append(
            ("ids_repeated", f"{count(found.n_ids_repeated, 'id occurs', 'ids occur')} repeatedly.")
        )
    return said


def _stratum(item: Stratification, name: str) -> str:
    return f"{third(item.name, name)} third" if item.kind == "thirds" else f'"{name}"'


def _same_side(row: Confound) -> bool:
    """Whether matched pairs are not shown to be ranked the other way round."""
    if row.matched.lower is None or row.matched.upper is None or row.auroc.estimate is None:
        return True
    return row.matched.upper >= 0.5 if row.auroc.estimate > 0.5 else row.matched.lower <= 0.5
