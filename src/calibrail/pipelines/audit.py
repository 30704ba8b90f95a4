"""Audit()."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.duplicates import normalise
from calibrail.data.example import Example
from calibrail.data.formats import Source
from calibrail.data.splits import FIT, group_numbers
from calibrail.errors import DataError, ModelError
from calibrail.evaluation.audit import (
    Audit,
    Leakage,
    LeftOut,
    Material,
    audit_scores,
    copies,
    giveaway,
    repeated,
    shared,
)
from calibrail.evaluation.audit_answers import AuditAnswers
from calibrail.evaluation.confounds import SURFACE, Division, by_column, thirds
from calibrail.evaluation.stats.intervals import Floats, Mask
from calibrail.formatting import Shown
from calibrail.models.embeddings import Encoder
from calibrail.models.loading import DEFAULT_MODEL
from calibrail.options import ReadOptions, SplitOptions, Undefined, fields
from calibrail.options.fields import optional
from calibrail.pipelines.loading import Context
from calibrail.pipelines.run import write_run
from calibrail.pipelines.scoring import Scored, require_usable, resolve_scores, score_source
from calibrail.pipelines.splitting import named_groups
from calibrail.report.documents.audit import with_sentences
from calibrail.report.messages import spell_reasons
from calibrail.scores.base import Embedding, Score, learns
from calibrail.scores.custom import ScoreLike
from calibrail.scores.lexical import (
    ANGLES,
    Angle,
    ContextLength,
    Length,
    NovelCount,
    Novelty,
    QuestionLength,
    QuestionWords,
)
from calibrail.scores.registry import DEFAULT_SCORE, key_of
from calibrail.scores.table import ScoreTable

#: Features whose thirds are strata.
DIVIDED: Final = ("theta_qc", "question_length", "context_length", "length")

NO_TEXTS: Final = "the data holds no such texts"

_SURFACE: Final = (Length, Novelty, NovelCount, QuestionWords, QuestionLength, ContextLength)


class TextDigests:
    """Remembers of each text only what tells copies apart."""

    def __init__(self) -> None:
        self._digests: dict[str, list[int]] = {"question": [], "answer": []}

    def watch(self, example: Example) -> None:
        """Remember one labelled answer."""
        if example.label is None:
            raise DataError(
                f"an audit needs labelled answers; {example.id or 'an example'} has no label"
            )
        self._digests["question"].append(_digest(example.question))
        self._digests["answer"].append(_digest(example.response))

    def digests(self, what: str) -> NDArray[np.uint64]:
        """Return the digests of every question or answer; 0 where there is none."""
        return np.array(self._digests[what], dtype=np.uint64)


def _digest(text: str) -> int:
    words = normalise(text).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(words, digest_size=8).digest(), "big") if words else 0


class Beside:
    """Which features are computed beside the detectors, known once the first answer is read.

    Parameters
    ----------
    geometry : bool
        Whether to embed the texts.

    Attributes
    ----------
    triangles : dict of str to tuple of Angle
        The angles per encoder: those that detectors use, else the embedded one.
    absent : str or None
        Why there are none.
    """

    def __init__(self, geometry: bool) -> None:
        self.triangles: dict[str, tuple[Angle, ...]] = {}
        self.absent: str | None = "it was not asked for (--no-geometry)"
        self._geometry = geometry

    def __call__(self, detectors: Sequence[Score], first: Example) -> list[Score]:
        """Return the surface features that are not detectors themselves, and the angles."""
        if not (first.question or first.response or first.contexts):
            self.absent = NO_TEXTS
        elif self._geometry:
            self._find_angles(detectors)
        known = {key_of(score) for score in detectors}
        surface = [kind() for kind in _SURFACE if key_of(kind()) not in known]
        return [*surface, *(angle for angles in self.triangles.values() for angle in angles)]

    def _find_angles(self, detectors: Sequence[Score]) -> None:
        """Take every encoder that a detector uses, else the embedded one if it is there."""
        encoders: dict[str, dict[str, Any]] = {}
        self.absent = None
        for score in detectors:
            # An encoder behind an endpoint is not asked for more than the detector itself needs.
            if isinstance(score, Embedding) and isinstance(score.encoder, Encoder):
                names = ("model", "revision", "prompt", "dtype")
                options = {name: getattr(score.encoder, name) for name in names}
                chosen = [f"{key}={options[key]}" for key in ("revision", "prompt") if options[key]]
                precision = [] if options["dtype"] == "float32" else [options["dtype"]]
                encoders[", ".join([options["model"], *chosen, *precision])] = options
        if not encoders:
            default = ANGLES[0]()
            try:
                # Reads files only; a model that is not installed is found out here.
                default.fingerprint()
                default.encoder.sentences(["?"])
            except (ModelError, ImportError) as error:
                self.absent = str(error)
                return
            encoders = {DEFAULT_MODEL: {}}
        self.triangles = {
            name: tuple(angle(**options) for angle in ANGLES) for name, options in encoders.items()
        }

    def features(
        self, scored: Scored, columns: Mapping[str, Floats]
    ) -> tuple[dict[str, Floats], dict[str, dict[str, Floats]]]:
        """Return the surface features with the first question-context angle, and all angles."""
        features = {name: columns[name] for name in SURFACE if name in columns}
        angles = {
            encoder: {angle.name: columns[key_of(angle)] for angle in triangle}
            for encoder, triangle in self.triangles.items()
        }
        if angles:
            features["theta_qc"] = next(iter(angles.values()))["theta_qc"]
        return features, angles


def has_angles(triangle: Mapping[str, Floats]) -> bool:
    """Return whether both angles of the response are known anywhere."""
    return not any(np.isnan(triangle[name]).all() for name in ("theta_rq", "theta_rc"))


def divide(
    features: Mapping[str, Floats],
    cells: Mapping[str, Sequence[Any]],
    absent: str | None,
) -> tuple[list[Division], list[LeftOut]]:
    """Return how answers are divided into strata, and what is left out for which reason.

    Parameters
    ----------
    features : mapping of str to ndarray of float64, shape (n,)
        Surface features and the question-context angle.
    cells : mapping of str to sequence, length n
        Columns whose values are strata.
    absent : str or None
        Why there are no angles.
    """
    divisions: list[Division] = []
    left_out: list[LeftOut] = []

    def lacks(name: str) -> bool:
        return name not in features or bool(np.isnan(features[name]).all())

    for name in DIVIDED:
        why = "it is the same for all answers"
        if lacks(name):
            why = (absent if name == "theta_qc" else None) or NO_TEXTS
        elif (division := thirds(name, features[name])) is not None:
            divisions.append(division)
            continue
        left_out.append(LeftOut(f"strata by {name}", why))
    for name, values in cells.items():
        if (division := by_column(name, values)) is not None:
            divisions.append(division)
        else:
            left_out.append(LeftOut(f"strata by {name}", "the column holds fewer than two values"))
    left_out.extend(LeftOut(f"confounding by {name}", NO_TEXTS) for name in SURFACE if lacks(name))
    if lacks("theta_qc"):
        left_out.append(LeftOut("components of the index", absent or NO_TEXTS))
    return divisions, left_out


def leaks(
    scored: Scored, used: Mask, texts: TextDigests, columns: Sequence[str], answers: AuditAnswers
) -> Leakage:
    """Look for copies over all answers, for giveaways over those that are audited."""
    table, groups = scored.table, named_groups(scored.table)
    sides = {
        "label": table.labels.astype(np.int64),
        "group": groups,
        "split": scored.codes.astype(np.int64),
    }
    ids = [str(item) for item in table.ids.to_pylist()]
    sketches = scored.sketches
    digests = {what: texts.digests(what) for what in ("question", "answer")}
    if sketches is not None and sketches.exact.any():
        digests["whole"] = table.digests
    repeats = [shared(what, digest, table.labels) for what, digest in digests.items()]
    grouped = np.array([group is not None for group in table.groups.to_pylist()], dtype=bool)
    giveaways = [giveaway("group", np.where(grouped, groups, -1)[used], answers)]
    for name in columns:
        cells = [None if cell in (None, "") else str(cell) for cell in table.kept[name]]
        numbers = group_numbers(cells, len(cells))
        numbers[[cell is None for cell in cells]] = -1
        giveaways.append(giveaway(name, numbers[used], answers))
    return Leakage(
        copies=copies(sketches, sides, ids) if sketches is not None else (),
        shared=tuple(item for item in repeats if item is not None),
        giveaways=tuple(giveaways),
        n_ids_repeated=repeated(ids),
    )


@dataclass(frozen=True, slots=True, repr=False)
class AuditRun(Shown):
    """An audit with the scores behind it: what ``calibrail audit`` writes.

    Attributes
    ----------
    audit : Audit
        Everything measured.
    table : ScoreTable
        Detectors and features, one row an answer.
    codes : ndarray of int8, shape (n,)
        The split of the answers.
    """

    shown_as = "audit"

    audit: Audit
    table: ScoreTable
    codes: NDArray[np.int8]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``audit.json``."""
        return with_sentences(self.audit.to_dict())

    def save(self, folder: str | Path) -> Path:
        """Write ``audit.json``, ``report.html``, ``scores.parquet`` and ``figures/*.svg``.

        The same run gives the same bytes; times are in ``cost.json`` beside them. Figures that an
        earlier run left in the folder are removed.
        """
        from calibrail.report.documents.audit import document

        content = self.to_dict()
        files = {"audit.json": content}
        return write_run(folder, files, document(content), self.table, codes=self.codes)


def audit(
    source: Source,
    scores: ScoreLike | Sequence[ScoreLike] = DEFAULT_SCORE,
    *,
    by: Sequence[str] = (),
    geometry: bool = True,
    undefined: Undefined = "flag",
    confidence: float = 0.95,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    context: Context | None = None,
) -> AuditRun:
    """Look into detectors: what explains their result, where they fail, whether they agree.

    Parameters
    ----------
    source : path, str or iterable of Example
        A file or folder of labelled answers, ``"example:facts"``, or examples in memory.
    scores : str, Score or sequence
        The detectors, as for ``compare``. Columns of scores need no texts; what needs texts is
        then left out, with a reason.
    by : sequence of str
        Columns of groups (a model, a domain): each group is a stratum.
    geometry : bool
        Whether to embed the texts for strata by angle and the parts of the index. The encoder is
        that of the first detector that has one, else the embedded one; nothing is downloaded for
        the audit.
    undefined : {"flag", "review", "pass"}
        Where answers without a score rank.
    confidence : float
        Level of every interval and test.
    reading, splitting : optional
        How to read the file and how to split it. The audit looks at all labelled answers, whatever
        their split, except those that a detector learns from; the split matters for near-duplicates
        across it, and its seed also draws the folds.
    context : Context, optional
        The command that a reader would run to get this audit again, and who is told of the
        progress.

    Returns
    -------
    AuditRun
        Save it with ``run.save(folder)``.

    Raises
    ------
    DataError
        If no row is usable, a class is missing, or a score is undefined everywhere.

    Examples
    --------
    >>> run = audit("example:facts", "novelty", geometry=False)
    >>> run.to_dict()["schema"], run.audit.detectors[0].name
    ('calibrail.audit/1', 'novelty')
    """
    splitting, context = (
        optional(splitting, SplitOptions, "splitting"),
        optional(context, Context, "context"),
    )
    detectors, by = resolve_scores(scores), tuple(dict.fromkeys(fields.texts(by, "by")))
    texts, beside = TextDigests(), Beside(geometry)
    scored = score_source(
        source,
        detectors,
        reading=reading,
        splitting=splitting,
        beside=beside,
        companions=False,
        keep=by,
        watch=texts.watch,
        progress=context.progress,
    )
    keys, table = scored.keys, scored.table
    for index in range(len(keys)):
        require_usable(scored, index, split=False)
    used = (scored.codes != FIT) | (not any(map(learns, detectors)))
    columns = {name: column[used] for name, column in table.columns.items()}
    features, angles = beside.features(scored, columns)
    rows = np.flatnonzero(used).tolist()
    cells = {name: [table.kept[name][row] for row in rows] for name in by}
    divisions, left_out = divide(features, cells, beside.absent)
    if table.n_truncated:
        ends = f"the ends of {table.n_truncated:,} long texts, in what is embedded"
        left_out.append(LeftOut(ends, "the encoder reads only their beginning"))
    answers = AuditAnswers(table.labels[used], scored.groups[used], confidence, splitting.seed)
    result = audit_scores(
        {key: columns[key] for key in keys},
        answers,
        Material(
            leakage=leaks(scored, used, texts, by, answers),
            features={name: features[name] for name in SURFACE if name in features},
            divisions=divisions,
            angles={name: triangle for name, triangle in angles.items() if has_angles(triangle)},
            left_out=left_out,
        ),
        specs=scored.specs,
        undefined=undefined,
        data={name: scored.data[name] for name in ("source", "format", "sha256", "n_examples")}
        | {"n_learnt_from": int(np.sum(~used))}
        | {name: scored.data[name] for name in ("n_quarantined", "n_truncated")}
        | {"part": scored.data["reading"]["part"]},
        reproduce=context.reproduce(),
    )
    unused = [
        key for key, column in table.columns.items() if key not in keys and np.isnan(column).all()
    ]
    return AuditRun(spell_reasons(result), table.without(unused), scored.codes)
