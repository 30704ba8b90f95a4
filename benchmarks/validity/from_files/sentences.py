"""Are sentences removed as promised, from a file of marked texts to the text that is shown?

The scores are those of ``validity/sentences.py``; here they get texts with marks in them, so that
everything between a file and a trimmed answer takes part: the sentences that a text is found
to hold, the joins between them, labels from spans, a cell with the score of each sentence.

Streams: an answer is stopped while it is written, however its tokens are cut. There a detector
reads the texts: a sentence has ten words, and the more of them stand in no context, the higher its
score. So the score is what it is with and without the rest of the answer.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

import calibrail
from calibrail.guardrail import Guardrail
from calibrail.options import Promise, SplitOptions
from calibrail.options.guarantee import Undefined
from calibrail.scores.table import SentenceTable

from ..check import DELTA, Check, Kind, MeanCheck, Setting
from ..sentences import (
    ALIKE,
    IN_TURN,
    KEY,
    SEPARATION,
    TOPICS,
    UNRELATED,
    Written,
    requirements,
    wrong_about,
)
from .files import SCORE, folder

_PLAIN: Final = "P{sign} weighs {weight} grams."
#: How sentences are tied to others: what they open with, stand in, or announce.
_JOINED: Final = (
    "However, p{sign} weighs {weight} grams.",
    "In addition, p{sign} weighs {weight} grams.",
    "Second, p{sign} weighs {weight} grams.",
    "The latter, p{sign}, weighs {weight} grams.",
    "\n- P{sign} weighs {weight} grams.",
    "\n3. P{sign} weighs {weight} grams.",
    "\nTwo points about p{sign}:\n",
)


@dataclass(frozen=True, slots=True)
class Answers:
    """Some answers of a population of texts.

    Attributes
    ----------
    names : ndarray of str, shape (n,)
        Their ids, which have nothing to do with anything else.
    groups : ndarray of int64, shape (n,)
        The source of each.
    topics : ndarray of int64, shape (n,)
        Position in ``TOPICS``.
    sentences : SentenceTable
        Their labels and scores.
    """

    names: NDArray[np.str_]
    groups: NDArray[np.int64]
    topics: NDArray[np.int64]
    sentences: SentenceTable

    def __len__(self) -> int:
        return len(self.names)

    def rows(self, index: int) -> slice:
        """Return which of the sentences are those of an answer."""
        return slice(int(self.sentences.first[index]), int(self.sentences.first[index + 1]))

    def joined(self, other: "Answers") -> "Answers":
        """Return these answers, then others; no source is common to both."""
        mine, theirs = self.sentences, other.sentences
        table = SentenceTable.of(
            np.append(np.diff(mine.first), np.diff(theirs.first)),
            np.append(mine.labels, theirs.labels),
            **{KEY: np.append(mine.columns[KEY], theirs.columns[KEY])},
        )
        return Answers(
            np.append(self.names, other.names),
            np.append(self.groups, other.groups + int(self.groups.max()) + 1),
            np.append(self.topics, other.topics),
            table,
        )


@dataclass(frozen=True, slots=True)
class Texts:
    """Answers in sentences, of which half are hallucinated.

    Attributes
    ----------
    written : Written
        How the scores of an answer's sentences hang together.
    largest : int
        Sources have 1 to this many answers.
    alike : float
        Correlation, between answers to one source, of what an answer's sentences have in common.
    joined : float
        Share of the sentences that are tied to others.
    by_topic : bool
        Whether answers have a topic, which shifts their scores.
    kind : {"continuous", "discrete", "tied"}
        Of the scores.
    """

    written: Written
    largest: int = 1
    alike: float = 0.0
    joined: float = 0.0
    by_topic: bool = False
    kind: Kind = "continuous"

    @property
    def name(self) -> str:
        """How results call it."""
        parts = [self.written.name]
        if self.kind != "continuous":
            parts.append(self.kind)
        if self.largest > 1:
            parts.append(f"1 to {self.largest} answers a source")
        if self.joined:
            parts.append("joins")
        return ", ".join(parts)

    def draw(self, rng: np.random.Generator, groups: int) -> Answers:
        """Draw the answers of so many sources."""
        sizes = 1 + rng.integers(self.largest, size=groups)
        member = np.repeat(np.arange(groups), sizes)
        n = len(member)
        # Alone, as many of each class.
        bad = rng.permutation(n) % 2 == 0 if self.largest == 1 else rng.random(n) < 0.5
        topics = rng.integers(len(TOPICS), size=n)
        shared = rng.standard_normal(groups)[member]
        common = np.sqrt(self.alike) * shared + np.sqrt(1.0 - self.alike) * rng.standard_normal(n)
        loc = np.array(list(TOPICS.values()))[topics] if self.by_topic else 0.0
        table = self.written.draw(rng, n, self.kind, hallucinated=bad, loc=loc, common=common)
        names = np.array([f"{number:015x}" for number in rng.integers(1 << 60, size=n).tolist()])
        return Answers(names, member, topics, table)

    def write(self, folder: Path, name: str, answers: Answers, **more: Iterable[Any]) -> Path:
        """Write answers as JSON lines, sorted by class and worst sentence; ``more`` are columns."""
        rows = self.rows(answers, name)
        for column, values in more.items():
            for row, value in zip(rows, values, strict=True):
                row[column] = value
        worst = (max((s for s in row["s0"] if s is not None), default=0.0) for row in rows)
        ordered = sorted(
            zip(rows, worst, strict=True), key=lambda pair: (pair[0]["label"], pair[1])
        )
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row, _ in ordered), encoding="utf-8")
        return path

    def rows(self, answers: Answers, name: str) -> list[dict[str, Any]]:
        """Return answers as rows of a file; ``name`` tells its sources from those of others."""
        rng = np.random.default_rng(len(answers))
        table, rows = answers.sentences, list[dict[str, Any]]()
        for index, id in enumerate(answers.names.tolist()):
            part = answers.rows(index)
            labels, scores = table.labels[part], table.columns[KEY][part].tolist()
            text, spans = self._text(rng, id, labels)
            rows.append(
                {
                    "id": id,
                    "response": text,
                    "label": int(labels.any()),
                    "spans": spans,
                    "s0": [None if math.isnan(score) else score for score in scores],
                }
            )
            if self.largest > 1:
                rows[-1]["group"] = f"{name} {answers.groups[index]}"
            if self.by_topic:
                rows[-1]["topic"] = list(TOPICS)[answers.topics[index]]
        return rows

    def sign(self, id: str, part: int) -> str:
        """Return what a sentence of an answer says, and no other sentence."""
        return f"art {part} of lot {int(id[:8], 16)}"

    def _text(
        self, rng: np.random.Generator, id: str, labels: NDArray[np.int8]
    ) -> tuple[str, list[list[int]]]:
        """Return an answer with what is marked in it: of some sentences all, of others a word."""
        text, spans = "", list[list[int]]()
        for part, bad in enumerate(labels.tolist(), start=1):
            tied = part > 1 and rng.random() < self.joined
            template = _JOINED[int(rng.integers(len(_JOINED)))] if tied else _PLAIN
            sign, weight = self.sign(id, part), int(rng.integers(10, 1000))
            sentence = template.format(sign=sign, weight=weight)
            start = len(text) + len(sentence) - len(sentence.lstrip())
            text += sentence
            if bad:
                word = text.index(sign, start)
                whole = [start, start + len(sentence.strip())]
                spans.append([word, word + 3] if rng.random() < 0.5 else whole)
            text += " "
        return text.rstrip(" "), spans


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSON lines; return where."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


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
PROMISE: Final = Promise(alpha=0.2, guarantee="marginal", unit="sentence")
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


_POPULATION: Final = Texts(ALIKE)
_WORDS: Final = 10
_KNOWN: Final = [f"known{letter}" for letter in "abcdefghij"]
_NEW: Final = [f"novel{letter}" for letter in "abcdefghij"]
#: Fresh answers of a run.
_STREAMED: Final = 20
#: Detectors of sentences, and of answers by their worst sentence.
_DETECTORS: Final = {"sentence": "novelty", "answer": "worst_sentence:detector=novelty"}


def stopped(at: Setting) -> Iterator[Check | MeanCheck]:
    """Show an unsupported sentence, or a hallucinated answer to its end: at most alpha on average.

    And, never: decide otherwise than about the whole answer.
    """
    for unit, detector in _DETECTORS.items():
        rng, shares, differs = at.rng(f"streamed, {unit}"), list[float](), list[bool]()
        promise = Promise(at.alpha, unit="sentence" if unit == "sentence" else "answer")
        with folder() as place:
            for _ in range(at.runs):
                rows = _rows(rng, _POPULATION.draw(rng, at.n))
                path = write_rows(place / "labelled.jsonl", rows)
                guardrail = calibrail.calibrate(path, detector, promise).freeze()
                fresh = _rows(rng, _POPULATION.draw(rng, _STREAMED))
                bad = [row for row in fresh if row["label"]]
                shares.append(float(np.mean([_shows(guardrail, rng, row, unit) for row in bad])))
                differs.append(any(_differs(guardrail, rng, row) for row in fresh))
        design = f"unit {unit}"
        yield at.mean("stream, shown though unsupported", shares, at.alpha, design=design)
        yield at.check("stream, another decision than of the whole", differs, 0.0, design=design)


def _shows(guardrail: Guardrail, rng: np.random.Generator, row: dict[str, Any], unit: str) -> bool:
    """Return whether a stream shows what the promise says is not shown."""
    tokens = _tokens(rng, row["response"])
    text = "".join(guardrail.stream_check(contexts=row["contexts"]).show(iter(tokens)))
    if unit == "answer":
        return bool(text == row["response"])
    return any(row["response"][start:end] in text for start, end in row["spans"])


def _differs(guardrail: Guardrail, rng: np.random.Generator, row: dict[str, Any]) -> bool:
    """Return whether the decision of a stream is not that of the whole answer, byte for byte."""
    stream = guardrail.stream_check(contexts=row["contexts"])
    for token in _tokens(rng, row["response"]):
        stream.feed(token)
    whole = guardrail.check(response=row["response"], contexts=row["contexts"])
    return stream.close().line() != whole.line()


def _tokens(rng: np.random.Generator, text: str) -> list[str]:
    """Cut a text anywhere: into letters, pieces of words, or whole paragraphs."""
    cuts = np.sort(rng.integers(len(text) + 1, size=int(rng.integers(2 * len(text)))))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _rows(rng: np.random.Generator, answers: Answers) -> list[dict[str, Any]]:
    """Return answers as rows whose texts hold their scores."""
    rows = list[dict[str, Any]]()
    table = answers.sentences
    new = np.round(_WORDS * ndtr((table.columns[KEY] - SEPARATION / 2.0) / 2.0)).astype(int)
    for index, id in enumerate(answers.names.tolist()):
        part, text, spans = answers.rows(index), "", list[list[int]]()
        for number, bad in zip(new[part].tolist(), table.labels[part].tolist(), strict=True):
            words = [*_NEW[:number], *_KNOWN[number:]]
            rng.shuffle(words)
            sentence = f"{' '.join(words).capitalize()}."
            spans += [[len(text), len(text) + len(sentence)]] if bad else []
            text += f"{sentence} "
        rows.append(
            {
                "id": id,
                # What tells answers apart whose words are the same.
                "question": f"Which {id}?",
                "contexts": [" ".join(_KNOWN)],
                "response": text.rstrip(),
                "label": int(bool(spans)),
                "spans": spans,
            }
        )
    return rows
