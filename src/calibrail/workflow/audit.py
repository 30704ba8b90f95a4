"""How does one call lead from labelled answers to an audit of the detectors?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.sources import Source
from calibrail.data.splits import FIT
from calibrail.evaluation.audit.answers import Answers
from calibrail.evaluation.audit.audit import Audit, LeftOut, Material, audit_scores
from calibrail.evaluation.audit.confounds import SURFACE
from calibrail.report.documents.audit_sentences import with_sentences
from calibrail.scores.custom import ScoreLike
from calibrail.scores.learned import learns
from calibrail.scores.registry import DEFAULT_SCORE
from calibrail.scores.table import ScoreTable
from calibrail.settings import ReadOptions, SplitOptions, Undefined, checks
from calibrail.settings.checks import optional
from calibrail.shown import Shown
from calibrail.workflow.audit_parts import Beside, Texts, divide, has_angles, leaks
from calibrail.workflow.context import Context
from calibrail.workflow.run_folder import write_run
from calibrail.workflow.scoring import resolve_scores, score_source
from calibrail.workflow.usable import require_usable
from calibrail.workflow.wording import spelled


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
    """Look into detectors: what explains their result, where do they fail, do they agree?

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
    detectors, by = resolve_scores(scores), tuple(dict.fromkeys(checks.texts(by, "by")))
    texts, beside = Texts(), Beside(geometry)
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
    answers = Answers(table.labels[used], scored.groups[used], confidence, splitting.seed)
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
    return AuditRun(spelled(result), table.without(unused), scored.codes)
