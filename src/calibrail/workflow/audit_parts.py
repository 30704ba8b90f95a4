"""What can an audit look at in this data, and what must it leave out?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.data.sketches import Sketcher, Sketches, normalise
from calibrail.data.splits import group_numbers
from calibrail.errors import DataError, ModelError
from calibrail.evaluation.audit import Answers, Division, LeftOut, by_column, thirds
from calibrail.evaluation.audit.confounds import SURFACE
from calibrail.evaluation.audit.leakage import Leakage, copies, giveaway, repeated, shared
from calibrail.models.embedding import Encoder
from calibrail.models.location import DEFAULT_MODEL
from calibrail.scores.base import Score
from calibrail.scores.baselines import Length, NovelCount, Novelty
from calibrail.scores.features import ANGLES, Angle, ContextLength, QuestionLength, QuestionWords
from calibrail.scores.neural import Embedding
from calibrail.scores.registry import key_of
from calibrail.scores.table import ScoreTable

#: Features whose thirds are strata.
DIVIDED: Final = ("theta_qc", "question_length", "context_length", "length")

NO_TEXTS: Final = "the data holds no such texts"


class Texts:
    """Remembers of each text only what tells copies apart."""

    def __init__(self) -> None:
        self._sketcher = Sketcher()
        self._questions: list[int] = []
        self._answers: list[int] = []
        self._sketches: Sketches | None = None

    def watch(self, examples: Iterator[Example]) -> Iterator[Example]:
        """Pass labelled examples on."""
        for example in examples:
            if example.label is None:
                raise DataError(
                    f"an audit needs labelled answers; {example.id or 'an example'} has no label"
                )
            self._sketcher.add(example)
            self._questions.append(_digest(example.question))
            self._answers.append(_digest(example.response))
            yield example

    def sketches(self) -> Sketches:
        """Return the sketches of everything watched."""
        if self._sketches is None:
            self._sketches = self._sketcher.finish()
        return self._sketches

    def digests(self, what: str) -> NDArray[np.uint64]:
        """Return the digests of every question or answer; 0 where there is none."""
        kept = self._questions if what == "question" else self._answers
        return np.array(kept, dtype=np.uint64)


def _digest(text: str) -> int:
    words = normalise(text)
    if not words:
        return 0
    encoded = words.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(encoded, digest_size=8).digest(), "big")


def surface_scores(detectors: Sequence[Score]) -> list[Score]:
    """Return the surface features that are not detectors themselves."""
    known = {key_of(score) for score in detectors}
    made: tuple[Score, ...] = (
        Length(), Novelty(), NovelCount(), QuestionWords(), QuestionLength(), ContextLength(),
    )  # fmt: skip
    return [score for score in made if key_of(score) not in known]


def angle_scores(detectors: Sequence[Score]) -> tuple[dict[str, tuple[Angle, ...]], str | None]:
    """Return the angles on every encoder that a detector uses, else on the embedded one.

    Without an encoder on this machine none, and the reason.
    """
    encoders: dict[str, dict[str, Any]] = {}
    for score in detectors:
        # An encoder behind an endpoint is not asked for more than the detector itself needs.
        if isinstance(score, Embedding) and isinstance(score.encoder, Encoder):
            coder = score.encoder
            own = {
                "model": coder.model, "revision": coder.revision, "prompt": coder.prompt,
                "dtype": coder.dtype,
            }  # fmt: skip
            shown = [coder.model] + [
                f"{key}={own[key]}" for key in ("revision", "prompt") if own[key]
            ]
            if coder.dtype != "float32":
                shown.append(coder.dtype)
            encoders[", ".join(shown)] = own
    if not encoders:
        default = ANGLES[0]()
        try:
            # Reads files only; a model that is not installed is found out here.
            default.fingerprint()
            default.encoder.sentences(["?"])
        except (ModelError, ImportError) as error:
            return {}, str(error)
        encoders = {DEFAULT_MODEL: {}}
    found: dict[str, tuple[Angle, ...]] = {
        name: tuple(angle(**own) for angle in ANGLES) for name, own in encoders.items()
    }
    return found, None


def has_angles(triangle: Mapping[str, NDArray[np.float64]]) -> bool:
    """Return whether both angles of the response are known anywhere."""
    return not any(np.isnan(triangle[name]).all() for name in ("theta_rq", "theta_rc"))


def divide(
    features: Mapping[str, NDArray[np.float64]],
    table: ScoreTable,
    used: NDArray[np.bool_],
    columns: Sequence[str],
    absent: str | None,
) -> tuple[list[Division], list[LeftOut]]:
    """Return how answers are divided into strata, and what is left out for which reason."""
    divisions: list[Division] = []
    left_out: list[LeftOut] = []
    for name in DIVIDED:
        values = features.get(name)
        if values is None or np.isnan(values).all():
            why = absent if name == "theta_qc" and absent else NO_TEXTS
            left_out.append(LeftOut(f"strata by {name}", why))
            continue
        division = thirds(name, values)
        if division is None:
            left_out.append(LeftOut(f"strata by {name}", "it is the same for all answers"))
        else:
            divisions.append(division)
    for name in dict.fromkeys(columns):
        cells = [cell for cell, here in zip(table.kept[name], used.tolist(), strict=True) if here]
        made = by_column(name, cells)
        if made is None:
            left_out.append(LeftOut(f"strata by {name}", "the column holds fewer than two values"))
        else:
            divisions.append(made)
    for name in SURFACE:
        values = features.get(name)
        if values is None or np.isnan(values).all():
            left_out.append(LeftOut(f"confounding by {name}", NO_TEXTS))
    if "theta_qc" not in features or np.isnan(features["theta_qc"]).all():
        why = absent or NO_TEXTS
        left_out.append(LeftOut("components of the index", why))
    return divisions, left_out


def leaks(
    table: ScoreTable,
    codes: NDArray[np.int8],
    used: NDArray[np.bool_],
    clusters: NDArray[np.int64],
    seen: Texts,
    columns: Sequence[str],
    answers: Answers,
) -> Leakage:
    """Look for copies over all answers, for giveaways over those that are audited."""
    labels = table.labels
    sides = {
        "label": labels.astype(np.int64),
        "group": clusters,
        "split": codes.astype(np.int64),
    }
    ids = [str(item) for item in table.ids.to_pylist()]
    sketches = seen.sketches()
    worded = bool(sketches.exact.any())
    texts = [
        shared("question", seen.digests("question"), labels),
        shared("answer", seen.digests("answer"), labels),
        shared("whole", table.digests, labels) if worded else None,
    ]
    told = [giveaway("group", _grouped(table, clusters)[used], answers)]
    for name in dict.fromkeys(columns):
        cells = [None if cell in (None, "") else str(cell) for cell in table.kept[name]]
        numbers = group_numbers(cells, len(cells))
        numbers[[cell is None for cell in cells]] = -1
        told.append(giveaway(name, numbers[used], answers))
    return Leakage(
        copies=copies(sketches, sides, ids) if worded else (),
        shared=tuple(item for item in texts if item is not None),
        giveaways=tuple(told),
        n_ids_repeated=repeated(ids),
    )


def _grouped(table: ScoreTable, clusters: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the group of every answer, -1 where it has none."""
    there = np.array([group is not None for group in table.groups.to_pylist()], dtype=bool)
    return np.where(there, clusters, -1)
