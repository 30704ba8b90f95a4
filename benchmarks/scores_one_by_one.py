"""What does scoring gain over a plain loop, score by score and text by text, as papers publish it?

The loop is what the quick start of the SGI repository does: for each answer, one
``SentenceTransformer.encode`` for every text that the formula names, and again for the next score;
for ``tfg`` one for the token vectors of every text, averaged to words. Both run on the same answers
in turns, and their values must agree. Goal: at least 10 times faster.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from results import write

from calibrail import Example
from calibrail.data import read
from calibrail.engine import score_examples
from calibrail.models.embeddings import load_encoder
from calibrail.models.loading import DEFAULT_MODEL, locate
from calibrail.scores import build, parse_specs
from calibrail.text.sentences import sentences
from calibrail.text.words import content_words

N, ROUNDS = 50, 2
#: How far the values may lie apart.
AGREE = 1e-4
DEFAULT_DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
#: The sets, and the scores that both sides compute on them. Sources of RAGTruth are longer than
#: the encoder reads at once; for ``tfg`` the loop would need windows, too.
SETS = {
    "HaluEval QA": ("halueval/qa_data.json", ("sgi", "rad", "tfg")),
    "RAGTruth QA": ("ragtruth", ("sgi", "local_sgi", "displacement_magnitude", "rad")),
}

Vector = NDArray[np.float64]


class Papers:
    """The scores as their formulas read, one text at a time."""

    def __init__(self) -> None:
        from sentence_transformers import SentenceTransformer

        self.model: Any = SentenceTransformer(str(locate(DEFAULT_MODEL).folder))

    def encode(self, text: str) -> Vector:
        """Return the unit vector of one text."""
        vector = self.model.encode([text], normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vector[0], np.float64)

    def words(self, text: str) -> list[Vector]:
        """Return the mean of each content word's token vectors."""
        (tokens,) = self.model.encode(
            [text], output_value="token_embeddings", show_progress_bar=False
        )
        offsets = self.model.tokenizer(
            text, truncation=True, max_length=self.model.max_seq_length, return_offsets_mapping=True
        )["offset_mapping"]
        vectors = tokens.numpy()
        found = []
        for word in content_words(text):
            of_word = [
                vector
                for vector, (start, end) in zip(vectors, offsets, strict=True)
                if word.start <= start < word.end and end > start
            ]
            if of_word:
                mean = np.mean(of_word, axis=0)
                found.append(mean / np.linalg.norm(mean))
        return found

    def sgi(self, answer: Example) -> float:
        """Return -theta(r, q) / (theta(r, c) + 1e-8)."""
        question = self.encode(answer.question)
        context = self.encode("\n".join(answer.contexts))
        response = self.encode(answer.response)
        return -angle(response, question) / (angle(response, context) + 1e-8)

    def local_sgi(self, answer: Example) -> float:
        """Return minus the mean index of the response's sentences."""
        ratios = []
        for sentence in sentences(answer.response):
            question = self.encode(answer.question)
            context = self.encode("\n".join(answer.contexts))
            vector = self.encode(sentence.text)
            ratios.append(angle(vector, question) / (angle(vector, context) + 1e-8))
        return -float(np.mean(ratios))

    def displacement_magnitude(self, answer: Example) -> float:
        """Return the distance of response and context."""
        context = self.encode("\n".join(answer.contexts))
        return float(np.linalg.norm(self.encode(answer.response) - context))

    def rad(self, answer: Example) -> float:
        """Return 1 - max cos(response, chunk)."""
        response = self.encode(answer.response)
        return 1.0 - max(float(response @ self.encode(chunk)) for chunk in answer.contexts)

    def tfg(self, answer: Example) -> float:
        """Return the share of words whose best match is below 0.3."""
        response = self.words(answer.response)
        sources = np.array([word for chunk in answer.contexts for word in self.words(chunk)])
        if not response:
            return float("nan")
        return float(np.mean([(sources @ word).max() < 0.3 for word in response]))


def angle(left: Vector, right: Vector) -> float:
    return float(np.arccos(np.clip(left @ right, -1.0, 1.0)))


def timed(work: Callable[[], Any]) -> tuple[NDArray[np.float64], Any]:
    """Return the seconds of the clock and of all cores together, and what came of the work."""
    start = np.array([time.perf_counter(), time.process_time()])
    result = work()
    return np.array([time.perf_counter(), time.process_time()]) - start, result


def compared(papers: Papers, answers: Sequence[Example], names: Sequence[str]) -> dict[str, Any]:
    """Return the best seconds of both sides, and how far their values lie apart."""
    encoder = load_encoder()

    def loop() -> dict[str, list[float]]:
        return {name: [getattr(papers, name)(answer) for answer in answers] for name in names}

    def scored() -> dict[str, Any]:
        encoder.forget()
        return dict(
            score_examples(answers, [build(spec) for spec in parse_specs(",".join(names))]).columns
        )

    papers.encode(answers[0].response), encoder.sentences([answers[0].response])
    by_loop, by_engine = [], []
    for _ in range(ROUNDS):
        seconds, plain = timed(loop)
        by_loop.append(seconds)
        seconds, ours = timed(scored)
        by_engine.append(seconds)
    for name in names:
        if not np.array_equal(np.isnan(plain[name]), np.isnan(ours[name])):
            raise SystemExit(f"{name} is undefined for other answers in the loop")
    apart = {name: float(np.nanmax(np.abs(np.array(plain[name]) - ours[name]))) for name in names}
    if (worst := max(apart.values())) > AGREE:
        raise SystemExit(f"the values lie {worst:g} apart: {apart}")
    return {"loop": np.min(by_loop, axis=0), "engine": np.min(by_engine, axis=0), "apart": worst}


def main() -> None:
    folder = Path(os.environ.get("CALIBRAIL_DATA", DEFAULT_DATA))
    if not folder.is_dir():
        print(f"skipped: no data sets at {folder}; set CALIBRAIL_DATA")
        return
    papers, rows = Papers(), []
    for title, (name, scores) in SETS.items():
        answers = list(read(folder / name, limit=N))[:N]
        result = compared(papers, answers, scores)
        loop, engine = (1000 * result[side] / len(answers) for side in ("loop", "engine"))
        times, of_cores = loop / engine
        rows.append(
            f"| {title}, {len(answers)} answers: {', '.join(scores)} | {loop[0]:.1f} | "
            f"{engine[0]:.1f} | {times:.1f} | {of_cores:.1f} | {result['apart']:.0e} |"
        )
    busy = os.getloadavg()[0]
    lines = [
        "Seconds per 1,000 answers. The loop encodes every text of every formula by itself, as "
        f"published code does. Best of {ROUNDS} rounds taken in turns; the load was "
        f"{busy:.1f} at the end, OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '')}. "
        "Goal: at least 10 times.",
        "",
        "| what | loop | scoring | times | by core seconds | values at most so far apart |",
        "|---|---|---|---|---|---|",
        *rows,
    ]
    libraries = ["torch", "sentence-transformers", "transformers"]
    write("scores_one_by_one", "Against scores one by one", lines, libraries)


if __name__ == "__main__":
    main()
