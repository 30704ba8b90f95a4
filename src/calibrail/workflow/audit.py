"""How does one call lead from labelled answers to an audit of the detectors?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.splits import FIT
from calibrail.engine.local import score_examples
from calibrail.errors import DataError
from calibrail.evaluation.audit import Answers, Audit, LeftOut, Material, audit_scores
from calibrail.evaluation.audit.confounds import SURFACE
from calibrail.guardrail.frozen import write_atomically
from calibrail.scores.base import Score
from calibrail.scores.features import Angle
from calibrail.scores.learned import learns
from calibrail.scores.registry import key_of
from calibrail.scores.table import ScoreTable
from calibrail.settings import ReadOptions, SplitOptions, Undefined
from calibrail.workflow.audit_parts import (
    NO_TEXTS,
    Texts,
    angle_scores,
    divide,
    has_angles,
    leaks,
    surface_scores,
)
from calibrail.workflow.context import Progress
from calibrail.workflow.run import describe
from calibrail.workflow.run_folder import cost_dict, write_json
from calibrail.workflow.scoring import columns_of, resolve_scores
from calibrail.workflow.sources import Source, open_source
from calibrail.workflow.splitting import fitted, group_codes, split_codes
from calibrail.workflow.versions import installed_versions


@dataclass(frozen=True, slots=True)
class AuditRun:
    """An audit with the scores behind it: what ``calibrail audit`` writes.

    Attributes
    ----------
    audit : Audit
        Everything found, with the conclusions in plain sentences.
    table : ScoreTable
        Detectors and features, one row an answer.
    codes : ndarray of int8, shape (n,)
        The split of the answers.
    """

    audit: Audit
    table: ScoreTable
    codes: NDArray[np.int8]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``audit.json``."""
        return self.audit.to_dict()

    def save(self, folder: str | Path) -> Path:
        """Write ``audit.json``, ``report.html``, ``scores.parquet`` and ``figures/*.svg``.

        The same run gives the same bytes; times are in ``cost.json`` beside them. Figures that an
        earlier run left in the folder are removed.
        """
        from calibrail.report.audit_figures import draw_audit
        from calibrail.report.audit_page import render_audit_html
        from calibrail.report.svg import standing_alone

        folder = Path(folder)
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        self.table.to_parquet(folder / "scores.parquet", self.codes)
        content = self.to_dict()
        write_json(folder / "audit.json", content)
        write_json(folder / "cost.json", cost_dict(self.table))
        figures = draw_audit(content)
        for old in (folder / "figures").glob("*.svg"):
            old.unlink()
        for name, figure in figures.items():
            path = folder / "figures" / f"{name}.svg"
            write_atomically(path, standing_alone(figure).encode("utf-8"))
        page = render_audit_html(content, figures)
        write_atomically(folder / "report.html", page.encode("utf-8"))
        return folder


def audit(
    source: Source,
    scores: str | Score | Sequence[str | Score] = "sgi",
    *,
    strata_columns: Sequence[str] = (),
    reading: ReadOptions | None = None,
    splitting: SplitOptions | None = None,
    undefined: Undefined = "flag",
    geometry: bool = True,
    confidence: float = 0.95,
    seed: int = 0,
    progress: Progress | None = None,
    command: str | None = None,
) -> AuditRun:
    """Look into detectors: what explains their result, where do they fail, do they agree?

    Parameters
    ----------
    source : path, str or iterable of Example
        A file or folder of labelled answers, ``"example:facts"``, or examples in memory.
    scores : str, Score or sequence
        The detectors, as for ``compare``. Columns of scores need no texts; what needs texts is
        then left out, with a reason.
    strata_columns : sequence of str
        Columns of the data whose values are strata, e.g. ``("model", "domain")``.
    reading, splitting : optional
        How to read the file and how to split it. The audit looks at all labelled answers, whatever
        their split, except those that a detector learns from; the split matters for near-duplicates
        across it.
    undefined : {"flag", "review", "pass"}
        Where answers without a score rank.
    geometry : bool
        Whether to embed the texts for strata by angle and the parts of the index. The encoder is
        that of the first detector that has one, else the embedded one; nothing is downloaded for
        the audit.
    confidence : float
        Level of every interval and test.
    seed : int
        Seed of the folds, and of the split unless ``splitting`` says otherwise.
    progress : callable, optional
        Called with the number of examples scored so far.
    command : str, optional
        The command that a reader would run to get this audit again.

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
    reading, splitting = reading or ReadOptions(), splitting or SplitOptions(seed=seed)
    detectors = resolve_scores(scores)
    if not isinstance(source, str | Path):
        source = list(source)
    by_split = (splitting.column,) if splitting.column is not None else ()
    keep = tuple(dict.fromkeys((*columns_of(detectors), *strata_columns, *by_split)))
    require = tuple(dict.fromkeys(name for score in detectors for name in score.requires))
    learning = any(map(learns, detectors))
    if learning:
        detectors = fitted(detectors, source, reading, splitting, require, keep)
    examples, opened = open_source(source, reading, require=require, keep=keep)
    first = next(examples, None)
    if first is None:
        raise DataError("there is no example to audit; the source is empty")
    triangles: dict[str, tuple[Angle, ...]] = {}
    absent: str | None = "it was not asked for (--no-geometry)"
    if not (first.question or first.response or first.contexts):
        absent = NO_TEXTS
    elif geometry:
        triangles, absent = angle_scores(detectors)
    surface = surface_scores(detectors)
    beside = [angle for triangle in triangles.values() for angle in triangle]
    seen = Texts()
    table = score_examples(
        seen.watch(chain((first,), examples)),
        (*detectors, *surface, *beside),
        keep=keep,
        progress=progress,
    )
    _check(table, detectors)
    codes = split_codes(table, splitting, learning)
    used = codes != FIT if learning else np.ones(len(table), dtype=bool)
    clusters = group_codes(table)
    columns = {name: column[used] for name, column in table.columns.items()}
    keys = [key_of(score) for score in detectors]
    # A column of another program may be called like a feature.
    outside = {key_of(score) for score in detectors if score.name == "column"}
    features: dict[str, NDArray[np.float64]] = {
        name: columns[name] for name in SURFACE if name in columns and name not in outside
    }
    found = {
        encoder: {angle.name: columns[key_of(angle)] for angle in triangle}
        for encoder, triangle in triangles.items()
    }
    if found:
        features["theta_qc"] = next(iter(found.values()))["theta_qc"]
    divisions, left_out = divide(features, table, used, strata_columns, absent)
    if table.n_truncated:
        cut = f"the ends of {table.n_truncated:,} long texts, in what is embedded"
        left_out.append(LeftOut(cut, "the encoder reads only their beginning"))
    answers = Answers(table.labels[used], clusters[used], confidence, seed)
    material = Material(
        leakage=leaks(table, codes, used, clusters, seen, strata_columns, answers),
        features={name: features[name] for name in SURFACE if name in features},
        divisions=divisions,
        angles={name: triangle for name, triangle in found.items() if has_angles(triangle)},
        left_out=left_out,
    )
    result = audit_scores(
        {key: columns[key] for key in keys},
        answers,
        material,
        specs={key: describe(score, key) for key, score in zip(keys, detectors, strict=True)},
        undefined=undefined,
        data={
            "source": str(source) if isinstance(source, str | Path) else "examples in memory",
            "format": opened.format if opened is not None else "examples",
            "sha256": opened.digest() if opened is not None else None,
            "n_examples": len(table),
            "n_learnt_from": int(np.sum(~used)),
            "n_quarantined": opened.n_quarantined if opened is not None else 0,
            "n_truncated": table.n_truncated,
        },
        reproduce={"command": command, "versions": installed_versions()},
    )
    unused = [
        key for key, column in table.columns.items() if key not in keys and np.isnan(column).all()
    ]
    return AuditRun(result, table.without(unused), codes)


def _check(table: ScoreTable, detectors: Sequence[Score]) -> None:
    """Refuse what cannot be audited, naming what is missing and the remedy."""
    for label, name in ((1, "hallucinated"), (0, "faithful")):
        if not (table.labels == label).any():
            raise DataError(
                f"no example is labelled {name} ({label}); an audit needs both classes. Is the "
                "label column right (--label-column), and is 1 = hallucinated?"
            )
    for score in detectors:
        key = key_of(score)
        if np.isnan(table.columns[key]).all():
            reasons = list(dict.fromkeys(table.reasons.get(key, {}).values()))[:3]
            raise DataError(
                f"the score {key} is undefined for all {len(table)} examples "
                f"({'; '.join(reasons)}); choose another score or column "
                "(`calibrail doctor DATA` lists the columns that hold numbers)"
            )
