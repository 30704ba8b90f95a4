"""What does a calibration run leave behind, and how is it frozen?"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from calibrail.conformal import Calibration
from calibrail.conformal.rule import Rule
from calibrail.data.digests import Digests
from calibrail.data.splits import CALIBRATION, FIT, TEST
from calibrail.errors import DataError, file_errors
from calibrail.evaluation import Report
from calibrail.guardrail.detector import frozen_fingerprint
from calibrail.guardrail.frozen import (
    DataRecord,
    FrozenConfig,
    Headline,
    Policy,
    ScoreSpecConfig,
    plain,
)
from calibrail.guardrail.probes import freeze_probes
from calibrail.guardrail.runtime import Guardrail
from calibrail.scores.base import Score
from calibrail.scores.custom import ScoreLike, as_score
from calibrail.scores.sentence_table import SentenceTable
from calibrail.scores.table import ScoreTable
from calibrail.settings.checks import one_of, path
from calibrail.settings.promise import Unit
from calibrail.shown import Shown
from calibrail.workflow.error_examples import ErrorExamples
from calibrail.workflow.inherited import frozen_reading
from calibrail.workflow.run_folder import read_json, write_run
from calibrail.workflow.trimmed_examples import TrimmedExamples

SCHEMA = "calibrail.calibration/1"

#: File of sentences, where these are removed: one row each.
SENTENCES = "sentences.parquet"

#: File of what a detector has learnt.
STATE = "state.safetensors"


@dataclass(frozen=True, slots=True, repr=False)
class Run(Shown):
    """A calibrated detector with its evidence: what ``calibrail calibrate`` writes.

    Attributes
    ----------
    report : Report
        Every measure with its interval, the warnings and the verdict.
    rule : Rule
        Everything that decides: the threshold, and those of groups and of a review where asked.
    spec : ScoreSpecConfig
        The detector and its fingerprint.
    data : mapping
        Where the data came from; counts and digests.
    calibration_examples : sequence of str
        Digests of the hallucinated calibration examples; ``certify`` leaves them out of fresh data.
    versions : mapping
        Versions of the libraries that computed the scores.
    state : bytes or None
        What a detector that learns has learnt, in the safetensors format.
    table, codes : ScoreTable and ndarray, or None
        The scores and the split; None in a run that was loaded from its folder.
    examples : ErrorExamples, TrimmedExamples or None
        The worst errors of the test part with their texts, or what becomes of answers of which
        sentences are removed; for the page alone.
    sentences : SentenceTable or None
        The sentences of the table's answers, where these are removed.
    """

    shown_as = "calibrate"

    report: Report
    rule: Rule
    spec: ScoreSpecConfig
    data: Mapping[str, Any]
    calibration_examples: Sequence[str]
    versions: Mapping[str, str]
    table: ScoreTable | None = None
    codes: NDArray[np.int8] | None = None
    state: bytes | None = None
    examples: ErrorExamples | TrimmedExamples | None = None
    sentences: SentenceTable | None = None

    def shown(self) -> tuple[Any, ...]:
        """Return the report: no text of the data."""
        return (self.report.to_dict(),)

    @property
    def calibration(self) -> Calibration:
        """Threshold, rank, guarantee and sorted calibration scores; with groups, the fallback's."""
        return self.rule.calibration

    @property
    def verdict(self) -> str:
        """``certified``, ``rejected`` or ``inconclusive``."""
        return self.report.verdict

    def save(self, folder: str | Path, *, text: bool = True) -> Path:
        """Write ``scores.parquet``, ``report.json``, ``report.html`` and ``calibration.json``.

        Where sentences are removed, ``sentences.parquet`` has a row for each, and the scores in
        ``scores.parquet`` are the values of answers.

        The same run gives the same bytes. Beside them stand ``figures/*.svg``, ``cost.json``, with
        the times measured, and ``state.safetensors``, what a detector that learns has learnt.
        Figures that an earlier run left in the folder are removed.

        Parameters
        ----------
        folder : path
            Made where it does not exist.
        text : bool
            Whether ``report.html`` may hold questions, contexts and answers; no other file does.
        """
        from calibrail.report.documents.calibrate import document

        if self.table is None or self.codes is None:
            raise DataError("this run was loaded from a folder; copy that folder instead")
        report = self.report.to_dict()
        files = {"report.json": report, "calibration.json": self._calibration_dict()}
        state = {} if self.state is None else {STATE: self.state}
        if self.sentences is None:
            values, labels = next(iter(self.table.columns.values())), self.table.labels
            test = self.codes == TEST
        else:
            part = self.sentences
            values, labels = next(iter(part.columns.values())), part.labels
            test = self.codes[part.answers] == TEST
        test &= ~np.isnan(values)
        hallucinated, faithful = (values[test & (labels == label)] for label in (1, 0))
        examples = None
        if self.examples is not None:
            examples = (self.examples if text else self.examples.without_text()).to_dict()
        page = document(report, (hallucinated, faithful), examples)
        written = write_run(folder, {**files, **state}, page, self.table, codes=self.codes)
        if self.sentences is not None:
            self.sentences.to_parquet(written / SENTENCES, self.table, self.codes)
        return written

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        """Load a run from its folder, for export.

        Raises
        ------
        DataError
            If the folder is not a run of ``calibrail calibrate``.
        """
        folder = path(folder, "folder")
        report = read_json(folder / "report.json")
        content = read_json(folder / "calibration.json")
        if content.get("schema") != SCHEMA:
            raise DataError(
                f"{folder / 'calibration.json'} has schema {content.get('schema')!r}; this version "
                f"reads {SCHEMA!r}; run `calibrail calibrate` again"
            )
        try:
            run = cls(
                state=_read_state(folder / STATE, content.get("state_sha256")),
                report=Report.from_dict(report),
                rule=Rule.from_dict({**content, "calibration": content}),
                spec=ScoreSpecConfig.model_validate(content["score"]),
                data=content["data"],
                calibration_examples=tuple(content["calibration_examples"]),
                versions=content["versions"],
            )
            # A value of another type would show only when the run is frozen.
            run._frozen("error")
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(
                f"{folder}: report.json or calibration.json was changed or is damaged: {reason}; "
                "run `calibrail calibrate` again"
            ) from error
        return run

    def freeze(
        self,
        on_failure: Literal["error", "flag", "review"] = "error",
        score: ScoreLike | None = None,
        *,
        probe_endpoint: bool = False,
    ) -> Guardrail:
        """Freeze the run into a guardrail that decides as this run's report counted.

        Parameters
        ----------
        on_failure : {"error", "flag", "review"}
            The outcome for an answer on which the detector raises.
        score : Score, callable or estimator, optional
            The detector itself, where no name leads to it. Such a guardrail decides in this
            process; its file cannot be loaded in another one.
        probe_endpoint : bool
            Whether a detector that asks an endpoint is to ask it about the 16 probe answers, whose
            scores are frozen so that another machine can be compared; others always are.
        """
        one_of(on_failure, ("error", "flag", "review"), "on_failure")
        detector = None if score is None else as_score(score)
        # Through the bytes and back, so that what is returned is what a file would hold.
        config = FrozenConfig.from_bytes(self._frozen(on_failure).to_bytes())
        detector = Guardrail(config, detector).score
        unit = self.report.promise.unit
        probes = freeze_probes(detector, endpoint=probe_endpoint, unit=unit)
        config = config.model_copy(update={"probes": probes})
        return Guardrail(FrozenConfig.from_bytes(config.to_bytes()), detector)

    def _frozen(self, on_failure: Literal["error", "flag", "review"]) -> FrozenConfig:
        report = self.report.to_dict()
        certificate, test = report["certificate"], report["test"]
        state = None if self.state is None else base64.b64encode(self.state).decode("ascii")
        origin = ("source", "format", "sha256", "n_examples", "n_quarantined")
        return FrozenConfig(
            score=self.spec.model_copy(update={"state": state}),
            promise=self.report.promise,
            requirement=self.report.requirement,
            **self.rule.to_dict(),
            policy=Policy(undefined=self.calibration.undefined, failure=on_failure),
            data=DataRecord(
                **{name: self.data[name] for name in origin},
                n_hallucinated=self.data.get("n_hallucinated"),
                known_by=self.data.get("known_by"),
                looked_at=self.data.get("looked_at"),
                seed=self.data["split"]["seed"],
                calibration_examples=list(self.calibration_examples),
                reading=frozen_reading(self.data.get("reading")),
            ),
            headline=Headline(
                verdict=report["verdict"],
                **{
                    name: certificate[name]
                    for name in ("reason", "max_fpr", "min_coverage", "confidence")
                },
                coverage=test.get("freed", test["coverage"]),
                fpr=test["fpr"],
                auroc=(test["auroc"] or {}).get("estimate"),
                warnings=[warning["code"] for warning in report["warnings"]],
                **{name: test[name] for name in ("kept_supported", "emptied") if name in test},
            ),
            versions=dict(self.versions),
        )

    def _calibration_dict(self) -> dict[str, Any]:
        rule = self.rule.to_dict()
        return {
            "schema": SCHEMA,
            **rule.pop("calibration"),
            "by": self.report.promise.by,
            **rule,
            "risks": list(self.report.requirement.risks),
            "score": self.spec.model_dump(exclude={"state"}),
            "state_sha256": None if self.state is None else hashlib.sha256(self.state).hexdigest(),
            "data": dict(self.data),
            "calibration_examples": self.calibration_examples,
            "versions": dict(self.versions),
        }


def _read_state(path: Path, digest: str | None) -> bytes | None:
    if digest is None:
        return None
    action = f"cannot read {path}, what the detector has learnt"
    with file_errors(action, "; run `calibrail calibrate` again"):
        raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != digest:
        raise DataError(f"{path} was changed after the run; run `calibrail calibrate` again")
    return raw


def score_config(score: Score, unit: Unit = "answer") -> ScoreSpecConfig:
    """Return what pins a detector of answers or sentences: its spec and its fingerprint."""
    return ScoreSpecConfig(
        name=score.name,
        params=plain(score.params),
        fingerprint=frozen_fingerprint(score, unit),
        tolerance=float(score.tolerance),
    )


def calibration_digests(
    table: ScoreTable, codes: NDArray[np.int8], *, both: bool = False, learnt: bool = False
) -> Sequence[str]:
    """Return the sorted digests of the hallucinated calibration examples, or of all of them.

    Those that the score has learnt from are among them: it knows their labels.
    """
    rows = (codes == CALIBRATION) & (both | (table.labels == 1))
    rows |= learnt & (codes == FIT)
    return Digests(np.sort(table.digests[rows]))
