"""Is an answer that is stopped while it is written stopped as promised, however its tokens are cut?

Here a detector reads the texts: a sentence has ten words, and the more of them stand in no context,
the higher its score. So the score is what it is with and without the rest of the answer.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

import calibrail
from calibrail.guardrail import Guardrail
from calibrail.settings import Promise
from calibrail.validity.check import Check, MeanCheck, Setting
from calibrail.validity.from_files.commands import folder
from calibrail.validity.from_files.texts import Answers, Texts, write_rows
from calibrail.validity.sentences import ALIKE, KEY, SEPARATION

_POPULATION: Final = Texts(ALIKE)
_WORDS: Final = 10
_KNOWN: Final = [f"known{letter}" for letter in "abcdefghij"]
_NEW: Final = [f"novel{letter}" for letter in "abcdefghij"]
#: Fresh answers of a run.
_FRESH: Final = 20
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
                fresh = _rows(rng, _POPULATION.draw(rng, _FRESH))
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
