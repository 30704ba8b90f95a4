"""Are answers trimmed as promised, from a file of marked texts to the text that is shown?"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

import calibrail
from calibrail.guardrail import Guardrail
from calibrail.settings import Promise, SplitOptions
from calibrail.settings.promise import Undefined
from calibrail.validity.check import DELTA, Check, MeanCheck, Setting
from calibrail.validity.from_files.commands import SCORE, folder
from calibrail.validity.from_files.texts import Answers, Texts, write_rows
from calibrail.validity.sentences import ALIKE, IN_TURN, TOPICS, UNRELATED
from calibrail.validity.trimming import requirements, wrong_about

#: Populations whose true rates are known exactly, and how thresholds on them are made.
_SOURCES: Final = Texts(ALIKE, largest=4, alike=0.8)
THRESHOLDS: Final[tuple[tuple[Texts, bool], ...]] = (
    (Texts(UNRELATED), False),
    (Texts(ALIKE, kind="discrete"), False),
    (_SOURCES, False),
    (_SOURCES, True),
)
#: Populations of which fresh answers are trimmed.
TRIMMED: Final[tuple[tuple[Texts, Undefined], ...]] = (
    (Texts(UNRELATED, joined=0.3), "flag"),
    (Texts(IN_TURN, largest=4, alike=0.5, joined=0.3), "flag"),
    (Texts(replace(ALIKE, name="a tenth without a score: flag", lost=0.1)), "flag"),
    (Texts(replace(ALIKE, name="a tenth without a score: review", lost=0.1)), "review"),
    (Texts(replace(ALIKE, name="one in 200 without a score: pass", lost=0.005)), "pass"),
)
#: Populations that verdicts are given about: many shares near 0 and 1, and sources.
JUDGED: Final = (
    Texts(UNRELATED),
    Texts(replace(ALIKE, name="scores of an answer nearly the same (0.95)", shared=0.95)),
    _SOURCES,
)
PROMISE: Final = Promise(alpha=0.2, unit="sentence")
#: Sources whose answers a threshold comes from.
_CALIBRATING: Final = 60
#: Fresh answers, by sources, of a run.
_FRESH: Final = 40


def miss_rates(at: Setting) -> Iterator[Check | MeanCheck]:
    """Leave an unsupported sentence in an answer to a new source: at most alpha on average.

    With ``pac``, draw a threshold that does in more than alpha: at most DELTA.
    """
    for texts, clustered in THRESHOLDS:
        rng = at.rng(f"trimming, {texts.name}, {clustered}")
        missed, bad = list[float](), list[bool]()
        marginal = at.promise(unit="sentence", clustered=clustered)
        pac = replace(marginal, guarantee="pac")
        with folder() as place:
            for _ in range(at.runs):
                path = texts.write(place, "labelled", texts.draw(rng, at.n))
                made = calibrail.calibrate(path, SCORE, marginal).calibration
                missed.append(_missed(texts, made.threshold))
                made = calibrail.calibrate(path, SCORE, pac).calibration
                bad.append(_missed(texts, made.threshold) > at.alpha)
        name = f"{texts.name}{', clustered' * clustered}"
        yield at.mean("trimming, answers not freed", missed, at.alpha, design=name)
        yield at.check("trimming, pac threshold frees too few", bad, DELTA, design=name)


def by_topic(at: Setting) -> Iterator[MeanCheck]:
    """Leave one in an answer of a topic: at most alpha on average, in each."""
    texts = Texts(ALIKE, by_topic=True)
    rng, missed = at.rng("trimming by topic"), {topic: list[float]() for topic in TOPICS}
    with folder() as place:
        for _ in range(at.runs):
            path = texts.write(place, "labelled", texts.draw(rng, at.n))
            promise = at.promise(by="topic", unit="sentence")
            rule = calibrail.calibrate(path, SCORE, promise).rule
            for topic, shift in TOPICS.items():
                (threshold,) = rule.thresholds(1, [topic]).tolist()
                missed[topic].append(texts.written.missed(threshold, shift))
    for topic, rates in missed.items():
        yield at.mean("trimming by topic, answers not freed", rates, at.alpha, design=topic)


def shown(at: Setting) -> Iterator[MeanCheck]:
    """Show anything of an unsupported sentence of a fresh answer: at most alpha on average.

    Looked for in the texts that are shown in the answers' place; one answer of each source.
    """
    for texts, policy in TRIMMED:
        rng, shares = at.rng(f"trimming, shown, {texts.name}"), []
        with folder() as place:
            for _ in range(at.runs):
                path = texts.write(place, "labelled", texts.draw(rng, at.n))
                promise = at.promise(unit="sentence", undefined=policy)
                guardrail = calibrail.calibrate(path, SCORE, promise).freeze()
                fresh = texts.draw(rng, _FRESH)
                shares.append(_left(guardrail, texts, fresh))
        yield at.mean("trimming, unsupported text shown", shares, at.alpha, design=texts.name)


def verdicts(at: Setting) -> Iterator[Check]:
    """Give a wrong verdict on the test part of a user's own split: at most 1 - confidence.

    The truth lies just on the other side of what a verdict says, for one requirement at a time.
    """
    for texts in JUDGED:
        rng = at.rng(f"trimming, verdicts, {texts.name}")
        known = texts.draw(rng, _CALIBRATING)
        splitting, threshold = SplitOptions(column="part"), None
        failed: dict[str, list[bool]] = {}
        with folder() as place:
            for _ in range(at.runs):
                fresh = texts.draw(rng, at.n)
                parts = ["calibration"] * len(known) + ["test"] * len(fresh)
                path = texts.write(place, "labelled", known.joined(fresh), part=parts)
                if threshold is None:
                    run = calibrail.calibrate(path, SCORE, PROMISE, splitting=splitting)
                    threshold = run.calibration.threshold
                missed = _missed(texts, threshold)
                asked = requirements(texts.written, threshold, at.alpha, missed)
                for design, requirement in asked.items():
                    run = calibrail.calibrate(
                        path, SCORE, PROMISE, requirement, splitting=splitting
                    )
                    assert run.calibration.threshold == threshold
                    failed.setdefault(design, []).append(run.verdict == wrong_about(design))
        for design, items in failed.items():
            design = f"{design}, {texts.name}"
            yield at.check("trimming, wrong verdict", items, at.alpha, design=design)


def _missed(texts: Texts, threshold: float) -> float:
    """Return the share of hallucinated answers that a threshold does not free."""
    # Half of the step to which discrete scores are rounded.
    shift = 0.25 if texts.kind == "discrete" else 0.0
    return texts.written.missed(threshold - shift)


def _left(guardrail: Guardrail, texts: Texts, fresh: Answers) -> float:
    """Return the share of hallucinated answers, one of each source, that show what is wrong."""
    with folder() as place:
        path = write_rows(place / "fresh.jsonl", texts.rows(fresh, "fresh"))
        decisions = guardrail.decide(path)
    first: dict[int, bool] = {}
    found = zip(fresh.groups.tolist(), fresh.names.tolist(), decisions, strict=True)
    for index, (source, name, decision) in enumerate(found):
        wrong = np.flatnonzero(fresh.sentences.labels[fresh.rows(index)] == 1) + 1
        if len(wrong) and source not in first:
            text = decision.text or ""
            first[source] = any(texts.sign(name, part) in text for part in wrong.tolist())
    return float(np.mean(list(first.values())))
