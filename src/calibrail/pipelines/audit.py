"""Audit()."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Unpack

import numpy as np
from numpy.typing import NDArray

from calibrail.data import duplicates, example, sources, splits
from calibrail.data.values import group_name
from calibrail.errors import ModelError
from calibrail.evaluation import audit as measures
from calibrail.evaluation.audit_answers import AuditAnswers
from calibrail.evaluation.confounds import SURFACE, Division, by_column, thirds
from calibrail.evaluation.stats.intervals import Floats, Mask
from calibrail.formatting import Shown
from calibrail.models.embeddings import Encoder
from calibrail.models.loading import DEFAULT_MODEL
from calibrail.options import ReadOptions, Requirement, SplitOptions, Undefined, fields
from calibrail.options.data import ReadKeywords
from calibrail.options.keywords import options_from_keywords
from calibrail.pipelines import data_reuse, loading, look_overlap, run, scoring
from calibrail.pipelines.fixed_threshold import with_columns, with_unnamed
from calibrail.pipelines.splitting import named_groups
from calibrail.report.documents.audit import with_sentences
from calibrail.report.messages import spell_reasons
from calibrail.scores import base, custom, lexical, registry
from calibrail.scores.table import ScoreTable

#: Features whose thirds are strata.
DIVIDED: Final = ("theta_qc", "question_length", "context_length", "length")

NO_TEXTS: Final = "the data holds no such texts"

#: Features of texts, in the order of their columns.
_SURFACE: Final = (
    *(lexical.Length, lexical.Novelty, lexical.NovelCount),
    *(lexical.QuestionWords, lexical.QuestionLength, lexical.ContextLength),
)


def _digest(text: str) -> int:
    """Return what tells copies of a text apart; 0 where there is none."""
    words = duplicates.normalise(text).encode("utf-8", "surrogatepass")
    return example.hash64(words) if words else 0


class _Features:
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
        self.triangles: dict[str, tuple[lexical.Angle, ...]] = {}
        self.absent: str | None = "it was not asked for (--no-geometry)"
        self._geometry = geometry

    def __call__(self, detectors: Sequence[base.Score], first: example.Example) -> list[base.Score]:
        """Return the surface features that are not detectors themselves, and the angles."""
        if not (first.question or first.response or first.contexts):
            self.absent = NO_TEXTS
        elif self._geometry:
            self._find_angles(detectors)
        known = {registry.key_of(score) for score in detectors}
        surface = [kind() for kind in _SURFACE if registry.key_of(kind()) not in known]
        return [*surface, *(angle for angles in self.triangles.values() for angle in angles)]

    def _find_angles(self, detectors: Sequence[base.Score]) -> None:
        """Take every encoder that a detector uses, else the embedded one if it is there."""
        encoders: dict[str, dict[str, Any]] = {}
        self.absent = None
        for score in detectors:
            # An encoder behind an endpoint is not asked for more than the detector itself needs.
            if isinstance(score, base.Embedding) and isinstance(score.encoder, Encoder):
                names = ("model", "revision", "prompt", "dtype")
                options = {name: getattr(score.encoder, name) for name in names}
                chosen = [f"{key}={options[key]}" for key in ("revision", "prompt") if options[key]]
                precision = [] if options["dtype"] == "float32" else [options["dtype"]]
                encoders[", ".join([options["model"], *chosen, *precision])] = options
        if not encoders:
            default = lexical.ANGLES[0]()
            try:
                # Reads files only; a model that is not installed is found out here.
                default.fingerprint()
                default.encoder.sentences(["?"])
            except (ModelError, ImportError) as error:
                self.absent = str(error)
                return
            encoders = {DEFAULT_MODEL: {}}
        self.triangles = {k: tuple(v(**it) for v in lexical.ANGLES) for k, it in encoders.items()}


def _divide(
    features: Mapping[str, Floats], cells: Mapping[str, Sequence[Any]], absent: str | None
) -> tuple[list[Division], list[measures.LeftOut]]:
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
    left_out: list[measures.LeftOut] = []

    def lacks(name: str) -> bool:
        return name not in features or bool(np.isnan(features[name]).all())

    for name in DIVIDED:
        why = "it is the same for all answers"
        if lacks(name):
            why = (absent if name == "theta_qc" else None) or NO_TEXTS
        elif (division := thirds(name, features[name])) is not None:
            divisions.append(division)
            continue
        left_out.append(measures.LeftOut(f"strata by {name}", why))
    for name, values in cells.items():
        if (division := by_column(name, values)) is not None:
            divisions.append(division)
        else:
            why = "the column holds fewer than two values"
            left_out.append(measures.LeftOut(f"strata by {name}", why))
    lacking = filter(lacks, SURFACE)
    left_out += (measures.LeftOut(f"confounding by {name}", NO_TEXTS) for name in lacking)
    if lacks("theta_qc"):
        left_out.append(measures.LeftOut("components of the index", absent or NO_TEXTS))
    return divisions, left_out


def _leaks(
    scored: scoring.Scored, used: Mask, columns: Sequence[str], answers: AuditAnswers
) -> measures.Leakage:
    """Look for copies over all answers, for giveaways over those that are audited."""
    table, groups, sketches = scored.table, named_groups(scored.table), scored.sketches
    ids = [str(item) for item in table.ids.to_pylist()]
    texts = [(item.question, item.response) for item in scored.answers or ()]
    digests = {
        what: np.array([_digest(pair[place]) for pair in texts], np.uint64)
        for place, what in enumerate(("question", "answer"))
    }
    if sketches is not None and sketches.exact.any():
        digests["whole"] = scored.known_by.digests
    sides = {
        "label": table.labels.astype(np.int64),
        "group": groups,
        "split": scored.codes.astype(np.int64),
    }
    repeats = [measures.shared(what, digest, table.labels) for what, digest in digests.items()]
    grouped = np.array([group is not None for group in table.groups.to_pylist()], dtype=bool)
    giveaways = [measures.giveaway("group", np.where(grouped, groups, -1)[used], answers)]
    for name in columns:
        cells = np.array([*map(group_name, table.kept[name])], object)
        numbers = np.where(cells == "", -1, np.unique(cells, return_inverse=True)[1])
        giveaways.append(measures.giveaway(name, numbers[used], answers))
    return measures.Leakage(
        copies=() if sketches is None else measures.copies(sketches, sides, ids),
        shared=tuple(item for item in repeats if item is not None),
        giveaways=tuple(giveaways),
        n_ids_repeated=measures.repeated(ids),
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
    look : DataUse
        The look that it is.
    """

    shown_as = "audit"

    audit: measures.Audit
    table: ScoreTable
    codes: NDArray[np.int8]
    look: look_overlap.DataUse

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``audit.json``."""
        return with_sentences(self.audit.to_dict())

    def save(self, folder: str | Path, *, force: bool = False) -> Path:
        """Write ``audit.json``, ``report.html``, ``scores.parquet`` and ``figures/*.svg``.

        The same run gives the same bytes; times are in ``cost.json`` beside them. Figures that an
        earlier run left in the folder are removed. Of several detectors, ``looks.json``
        keeps that these answers may have chosen one.
        """
        from calibrail.report.documents.audit import document

        files = {"audit.json": (content := self.to_dict())}
        if self.look.compared:
            files = data_reuse.with_look(files, folder, self.look)
        page, table, codes = document(content), self.table, self.codes
        return run.write_run(folder, files, page, table, codes=codes, force=force)


@options_from_keywords(reading=ReadOptions)
def audit(
    source: sources.Source,
    scores: custom.ScoreLike | Sequence[custom.ScoreLike] | None = None,
    *,
    score_column: str | Sequence[str] | None = None,
    higher: str | None = None,
    by: Sequence[str] = (),
    geometry: bool = True,
    undefined: Undefined = "flag",
    confidence: float = 0.95,
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    context: loading.Context | None = None,
    **how: Unpack[ReadKeywords],
) -> AuditRun:
    """Look into detectors: what explains their result, where they fail, whether they agree.

    Parameters
    ----------
    source : path, str or iterable of Example
        A file or folder of labelled answers, ``"example:facts"``, or examples in memory.
    scores : str, Score or sequence, optional
        The detectors, as for ``compare``, also where nobody names any. Columns of scores need no
        texts; what needs texts is then left out, with a reason.
    score_column, higher
        As for `calibrate`.
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
        How to read the file (its fields may stand by themselves) and how to split it. The audit
        looks at all labelled answers, whatever their split, except those that a detector learns
        from; the split matters for near-duplicates across it, and its seed also draws the folds.
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
    splitting = fields.optional(splitting, SplitOptions, "splitting")
    context = fields.optional(context, loading.Context, "context")
    scores = with_columns(scores, score_column, higher)
    source, scores, said = with_unnamed(source, scores, reading, several=True)
    detectors, by = scoring.resolve_scores(scores), tuple(dict.fromkeys(fields.texts(by, "by")))
    beside = _Features(geometry)
    scored = scoring.score_source(
        source,
        detectors,
        reading=reading,
        splitting=splitting,
        beside=beside,
        companions=False,
        keep=by,
        progress=context.progress,
    )
    keys, table = scored.keys, scored.table
    for index in range(len(keys)):
        scoring.require_usable(scored, index, split=False)
    used = (scored.codes != splits.FIT) | (not any(map(base.learns, detectors)))
    columns = {name: column[used] for name, column in table.columns.items()}
    features: dict[str, Floats] = {name: columns[name] for name in SURFACE if name in columns}
    angles = {
        encoder: {angle.name: columns[registry.key_of(angle)] for angle in triangle}
        for encoder, triangle in beside.triangles.items()
    }
    if angles:
        features["theta_qc"] = next(iter(angles.values()))["theta_qc"]
    # Of an encoder both angles of the response must be known anywhere.
    angles = {
        encoder: triangle
        for encoder, triangle in angles.items()
        if not any(np.isnan(triangle[name]).all() for name in ("theta_rq", "theta_rc"))
    }
    rows = np.flatnonzero(used).tolist()
    cells = {name: [table.kept[name][row] for row in rows] for name in by}
    divisions, left_out = _divide(features, cells, beside.absent)
    if table.n_truncated:
        ends = f"the ends of {table.n_truncated:,} long texts, in what is embedded"
        left_out.append(measures.LeftOut(ends, "the encoder reads only their beginning"))
    answers = AuditAnswers(table.labels[used], scored.groups[used], confidence, splitting.seed)
    result = measures.audit_scores(
        {key: columns[key] for key in keys},
        answers,
        measures.Material(
            leakage=_leaks(scored, used, by, answers),
            features={name: features[name] for name in SURFACE if name in features},
            divisions=divisions,
            angles=angles,
            left_out=left_out,
        ),
        specs=scored.specs,
        undefined=undefined,
        data={name: scored.data[name] for name in ("source", "format", "sha256", "n_examples")}
        | {"n_learnt_from": int(np.sum(~used))}
        | {name: scored.data[name] for name in ("n_quarantined", "n_truncated")}
        | {"part": scored.data["reading"]["part"], "notes": list(said)},
        reproduce=context.reproduce(),
    )
    unused = [k for k, it in table.columns.items() if k not in keys and np.isnan(it).all()]
    look = data_reuse.look_of_run(scored, keys, Requirement(confidence=confidence))
    return AuditRun(spell_reasons(result), table.without(unused), scored.codes, look)
