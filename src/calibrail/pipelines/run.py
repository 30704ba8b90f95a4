"""Runs: the folder of a calibration, and the guardrail that is frozen from it."""

from __future__ import annotations

import base64
import hashlib
import json
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

import calibrail.guardrail
from calibrail import conformal
from calibrail.atomic_files import read_regular, whole_folder, write_atomically
from calibrail.conformal.argument_checks import Bools, Floats
from calibrail.conformal.threshold import NegatedCalibration
from calibrail.conformal.threshold_rule import Rule
from calibrail.data import example, outputs, sources, splits
from calibrail.data.dataset import hex_digests
from calibrail.data.reading import read
from calibrail.errors import CalibrailError, DataError, InputError, Library, errors_as, file_errors
from calibrail.evaluation import Report
from calibrail.evaluation.scored_answers import CLASSES, Sample
from calibrail.formatting import Scale, Shown
from calibrail.models.hardware import installed_versions
from calibrail.options import ReadOptions, fields
from calibrail.options.data import LABELLING, PART
from calibrail.options.fields import changed, flags, one_of, optional, path
from calibrail.options.guarantee import Unit
from calibrail.pipelines.data_reuse import with_tried_since
from calibrail.pipelines.examples import without_text
from calibrail.pipelines.scoring import Scored
from calibrail.report.document import Document
from calibrail.report.messages import say
from calibrail.scores.base import Score, state_bytes
from calibrail.scores.custom import ScoreLike, as_score
from calibrail.scores.registry import frozen_fingerprint
from calibrail.scores.table import ScoreTable, SentenceTable
from calibrail.serialization import given_back, json_parts
from calibrail.text.words import measure_texts

if TYPE_CHECKING:
    from calibrail.guardrail import file, runtime
    from calibrail.report import html, markdown
else:
    file, runtime = Library("calibrail.guardrail.file"), Library("calibrail.guardrail.runtime")
    html, markdown = Library("calibrail.report.html"), Library("calibrail.report.markdown")

COST_SCHEMA: Final = "calibrail.cost/1"

#: Folder of a document's figures, within that of its results.
FIGURES: Final = "figures"
#: What a file holds that is no page, by its ending.
_RENDERERS: Final = {".md": "render_comment", ".markdown": "render_comment", ".xml": "render_junit"}


def write_run(
    folder: str | Path,
    files: Mapping[str, Mapping[str, Any] | bytes | Callable[[Path], object]],
    document: Document,
    *tables: ScoreTable,
    codes: NDArray[np.int8] | None = None,
    page: str = "report.html",
    force: bool = False,
) -> Path:
    """Write a folder of results, all of its files or none.

    Parameters
    ----------
    folder : path
        Made where it does not exist.
    files : mapping
        Content of each JSON file, or of one of bytes, by its name; or what writes it.
    document : Document
        For the page and ``figures/NAME.svg``; figures of an earlier run are removed.
    *tables : ScoreTable
        For ``cost.json``: what each score cost, with the times measured.
    codes : ndarray of int8, shape (n,), optional
        The split of the one table, which is written to ``scores.parquet``.
    page : str
        Name of the page's file.
    force : bool
        Whether files of that name which are no results of a run are replaced.

    Returns
    -------
    Path
        The folder.
    """
    path = fields.path(folder, "folder")
    output = [outputs.Output("", path, outputs.RUN_FILES)]
    outputs.refuse_read(output, (file for table in tables for file in table.files))
    outputs.refuse_foreign(output, force=force)
    with (
        file_errors(f"cannot write into the folder {path}", "; make room, or name another one"),
        whole_folder(path) as made,
    ):
        if codes is not None:
            tables[0].to_parquet(made / "scores.parquet", codes)
        write_page(document.naming(RUN=path), made / page)
        write_figures(document, made / FIGURES)
        for name, content in {"cost.json": cost_dict(*tables), **files}.items():
            if callable(content):
                content(made / name)
                continue
            raw = content if isinstance(content, bytes) else json_parts(content)
            write_atomically(made / name, raw)
        written = {str(item.relative_to(made)) for item in made.rglob("*")}
    for old in (path / FIGURES).glob("*.svg"):
        if f"{FIGURES}/{old.name}" not in written:
            old.unlink()
    outputs.remove_earlier(path, {*files, *written})
    return path


def write_figures(document: Document, folder: Path) -> None:
    """Write a document's figures."""
    folder.mkdir(exist_ok=True)
    for name, svg in html.figure_files(document).items():
        write_atomically(folder / f"{name}.svg", svg.encode("utf-8", "replace"))


def write_page(document: Document, path: Path) -> None:
    """Write a document as one page, or as what else its file's name ends in."""
    name = _RENDERERS.get(path.suffix.lower())
    render = html.render_page if name is None else getattr(markdown, name)
    # Half of a surrogate pair may stand in a name; UTF-8 has no bytes for it.
    write_atomically(path, render(document).encode("utf-8", "replace"))


def cost_dict(*tables: ScoreTable) -> dict[str, Any]:
    """Return what each score cost, as ``cost.json`` holds it."""
    costs = [cost.to_dict() for table in tables for cost in table.costs]
    return {"schema": COST_SCHEMA, "scores": costs}


def read_json(path: Path, command: str = "calibrate") -> dict[str, Any]:
    """Read a JSON object, with an error that says which file of a run is missing or damaged."""
    remedy = f"; name a folder that `calibrail {command} ... -o FOLDER` wrote"
    odd = (ValueError, RecursionError)
    is_json = errors_as(DataError, odd, "run_is_no_json", path=path, command=command)
    with is_json, file_errors(f"cannot read {path}", remedy):
        content = json.loads(read_regular(path))
    if not isinstance(content, dict):
        raise DataError(f"{path} does not hold a JSON object; run `calibrail {command}` again")
    return content


#: Ways to say what labels are, and what else says it: the one that is given wins over the frozen.
_EITHER: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(LABELLING, ("pair",)),
    **{"label_map": ("positive", "pair"), "positive": ("label_map", "pair"), "pair": LABELLING},
}
_OF_LABELS: Final = (*LABELLING, "pair", "group_column", "span_share")


def frozen_reading(how: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what a guardrail keeps of how its data was read: options and the columns they gave."""
    settings = {} if not how else how["settings"]
    settings = {name: value for name, value in settings.items() if name not in PART}
    if not how or not (settings or "decimals" in how):
        return None
    kept = {name: how.get(name) for name in ("columns", "decimals", "labellers")}
    return {"settings": settings} | {k: v for k, v in kept.items() if v is not None}


def inherited_reading(
    reading: ReadOptions | None,
    guardrail: calibrail.Guardrail,
    source: sources.Source,
    *,
    labelled: bool,
) -> ReadOptions:
    """Return how to read fresh data: as is asked, and otherwise as the guardrail's own data.

    What was frozen is taken up where the data has the same columns for its texts, and for its
    labels where these are read: then it is a file of the same making. A file of another layout is
    read by what it shows itself.

    Parameters
    ----------
    reading : ReadOptions or None
        The options that were given; they win, one by one.
    guardrail : Guardrail
        Its data record may hold options.
    source : Source
        The fresh data.
    labelled : bool
        Whether labels are read.
    """
    reading = optional(reading, ReadOptions, "reading")
    frozen = guardrail.config.data.reading
    if frozen is None or isinstance(source, Iterator):
        return reading
    given = changed(reading)
    settings = {
        name: value
        for name, value in frozen["settings"].items()
        if name not in given
        and given.keys().isdisjoint(_EITHER.get(name, ()))
        and (labelled or name not in _OF_LABELS)
    }
    try:
        likely = replace(reading, **settings)
        looked = replace(likely, quarantine=None, strict=False, labelled_by=reading.labelled_by)
        opened = read(source, looked, require=(), labelled=False, allow_none=True)
    except CalibrailError:
        return reading
    here = opened.columns
    if frozen.get("labellers") and opened.labellers.columns:
        # Its rows say themselves who gave their labels.
        likely = replace(likely, labelled_by=reading.labelled_by)
    fields = (*example.TEXT_FIELDS, "label") if labelled else example.TEXT_FIELDS
    columns = {field: here.by_field[field] for field in fields if field in here.present}
    wanted = {field: frozen["columns"][field] for field in fields if field in frozen["columns"]}
    return likely if columns.items() >= wanted.items() else reading


def inherited_reading_with_flags(
    reading: ReadOptions, guardrail: calibrail.Guardrail, source: sources.Source
) -> tuple[ReadOptions, tuple[str, ...]]:
    """Return what `inherited_reading` does without labels, and the same as words of a command."""
    used = inherited_reading(reading, guardrail, source, labelled=False)
    given = changed(reading)
    added = {name: value for name, value in changed(used).items() if name not in given}
    return used, flags(ReadOptions(**added))


SCHEMA = "calibrail.calibration/1"

#: File of sentences, where these are removed: one row each.
SENTENCES = "sentences.parquet"

#: File of what a comparison chose: a run's report and what calibrated it.
CHOSEN = "chosen.json"

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
    spec : dict
        The detector and its fingerprint.
    data : mapping
        Where the data came from; counts and digests.
    calibration_examples : sequence of str
        Digests of the hallucinated calibration examples; ``certify`` leaves them out of fresh data.
    versions : mapping
        Versions of the libraries that computed the scores.
    sketches : str or None
        The sketches of these examples, by which ``certify`` knows their near copies.
    state : bytes or None
        What a detector that learns has learnt, in the safetensors format.
    table, codes : ScoreTable and ndarray, or None
        The scores and the split; None in a run that was loaded from its folder.
    examples : mapping or None
        The worst errors of the test part with their texts, or what becomes of answers of which
        sentences are removed, as `page_examples` gives them; for the page alone.
    sentences : SentenceTable or None
        The sentences of the table's answers, where these are removed.
    classes : mapping of str to sequence of float, or None
        By class, the defined scores of the calibration part, one answer of each group; without one
        of all answers. None where sentences are removed.
    sketched : callable
        Measures `traffic`, which few callers need; its result is None where sentences are removed.
    """

    shown_as = "calibrate"

    report: Report
    rule: Rule
    spec: Mapping[str, Any]
    data: Mapping[str, Any]
    calibration_examples: Sequence[str]
    versions: Mapping[str, str]
    sketches: str | None = None
    table: ScoreTable | None = None
    codes: NDArray[np.int8] | None = None
    state: bytes | None = None
    examples: Mapping[str, Any] | None = None
    sentences: SentenceTable | None = None
    classes: Mapping[str, Sequence[float]] | None = None
    sketched: Callable[[], calibrail.guardrail.TrafficSketch | None] | None = None

    @property
    def traffic(self) -> calibrail.guardrail.TrafficSketch | None:
        """What a watch of the guardrail compares traffic with, measured when it is asked for."""
        return None if self.sketched is None else self.sketched()

    def shown(self) -> tuple[Any, ...]:
        """Return the report: no text of the data."""
        return (self.report.to_dict(),)

    @property
    def calibration(self) -> conformal.Calibration | NegatedCalibration:
        """Threshold, rank, guarantee and sorted calibration scores; with groups, the fallback's.

        In the numbers of the score as its user knows it; ``rule`` holds those that decide.
        """
        return self.rule.calibration.as_known(Scale.of(self.spec).negated)

    @property
    def verdict(self) -> str:
        """``certified``, ``rejected`` or ``inconclusive``."""
        return self.report.verdict

    def save(self, folder: str | Path, *, text: bool = True, force: bool = False) -> Path:
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
        force : bool
            Whether files of these names which are no results of a run are replaced.
        """
        from calibrail.report.documents.calibrate import document

        if self.table is None or self.codes is None:
            raise DataError("this run was loaded from a folder; copy that folder instead")
        report = self.report.to_dict()
        files: dict[str, Any] = {
            "report.json": report,
            "calibration.json": self._calibration_dict(),
            **({} if self.state is None else {STATE: self.state}),
        }
        if self.sentences is None:
            values, labels = next(iter(self.table.columns.values())), self.table.labels
            test = splits.tested_rows(self.codes)
        else:
            part = self.sentences
            files[SENTENCES] = partial(part.to_parquet, table=self.table, codes=self.codes)
            values, labels = next(iter(part.columns.values())), part.labels
            test = self.codes[part.answers] == splits.TEST
        test &= ~np.isnan(values)
        hallucinated, faithful = (values[test & (labels == label)] for label in (1, 0))
        examples = None
        if self.examples is not None:
            examples = given_back(self.examples if text else without_text(self.examples))
        page = document(report, (hallucinated, faithful), examples)
        return write_run(folder, files, page, self.table, codes=self.codes, force=force)

    def kept(self) -> dict[str, Mapping[str, Any] | bytes]:
        """Return the files in which a comparison keeps what it chose, for `load`."""
        state = {} if self.state is None else {STATE: self.state}
        parts = {"report": self.report.to_dict(), "calibration": self._calibration_dict()}
        return {CHOSEN: {"schema": "calibrail.chosen/1", **parts}, **state}

    @classmethod
    def load(cls, folder: str | Path, *, best: bool = False) -> Run:
        """Load a run from its folder, for export; from that of a comparison its winner's.

        Parameters
        ----------
        folder : path
            What ``calibrate`` or ``compare`` wrote.
        best : bool
            Whether a comparison without a winner gives its candidate.

        Raises
        ------
        DataError
            If the folder is not such a run.
        InputError
            If a comparison has no winner, and ``best`` does not say to do without one.
        """
        folder = path(folder, "folder")
        if (folder / "compare.json").exists():
            if not (folder / CHOSEN).exists():
                return chosen_run(None, best=best)
            kept = read_json(folder / CHOSEN, "compare")
            run = cls._of(folder, kept.get("report", {}), kept.get("calibration", {}))
            return chosen_run(run, best=best)
        report = read_json(folder / "report.json")
        run = cls._of(folder, report, read_json(folder / "calibration.json"))
        return replace(run, report=with_tried_since(run.report, folder))

    @classmethod
    def _of(cls, folder: Path, report: Mapping[str, Any], content: Mapping[str, Any]) -> Run:
        """Return the run of a report and of what calibrated it, as they stand in a folder."""
        if (schema := content.get("schema")) != SCHEMA:
            path = folder / "calibration.json"
            raise DataError.on("run_of_version", path=path, schema=schema, own=SCHEMA)
        state = None
        if (digest := content.get("state_sha256")) is not None:
            action = f"cannot read {folder / STATE}, what the detector has learnt"
            with file_errors(action, "; run `calibrail calibrate` again"):
                state = read_regular(folder / STATE)
            if hashlib.sha256(state).hexdigest() != digest:
                raise DataError(say("refused.state_changed", path=folder / STATE))

        try:
            traffic = content.get("traffic")
            sketch = traffic and file.TrafficSketch.model_validate(traffic)
            run = cls(
                state=state,
                report=Report.from_dict(report),
                rule=Rule.from_dict({**content, "calibration": content}),
                spec=content["score"],
                data=content["data"],
                calibration_examples=tuple(content["calibration_examples"]),
                versions=content["versions"],
                sketches=content.get("sketches"),
                classes=content.get("classes"),
                sketched=lambda: sketch,
            )
            # A value of another type would show only when the run is frozen.
            run._frozen("error")
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            reason = str(error).splitlines()[0]
            raise DataError(say("refused.run_damaged", folder=folder, reason=reason)) from error
        return run

    def freeze(
        self,
        on_failure: Literal["error", "flag", "review"] = "error",
        score: ScoreLike | None = None,
        *,
        probe_endpoint: bool = False,
        probability: bool = False,
    ) -> calibrail.Guardrail:
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
        probability : bool
            Whether the calibration scores of both classes are frozen, too, so that decisions can
            tell P(hallucinated) (`Guardrail.with_probability`).
        """
        from calibrail.guardrail.probes import freeze_probes

        one_of(on_failure, ("error", "flag", "review"), "on_failure")
        detector = None if score is None else as_score(score)
        # Through the bytes and back, so that what is returned is what a file would hold.
        frozen = self._frozen(on_failure)
        if probability:
            if self.classes is None or not all(self.classes.values()):
                raise InputError(say("refused.no_probability"))
            bad, good = (list(self.classes[name]) for name in CLASSES)
            kept = file.ClassScores(hallucinated=bad, faithful=good)
            frozen = frozen.model_copy(update={"probability": kept})
        config = file.FrozenConfig.from_bytes(frozen.to_bytes())
        detector = runtime.Guardrail(config, detector).score
        probes = freeze_probes(detector, endpoint=probe_endpoint, unit=self.report.promise.unit)
        config = config.model_copy(update={"probes": probes})
        return runtime.Guardrail(file.FrozenConfig.from_bytes(config.to_bytes()), detector)

    def _frozen(
        self, on_failure: Literal["error", "flag", "review"]
    ) -> calibrail.guardrail.FrozenConfig:

        report = self.report.to_dict()
        certificate, test, by = (report[name] for name in ("certificate", "test", "by_group"))
        kept = ("column", "group", "own", "verdict", "max_fpr")
        state = None if self.state is None else base64.b64encode(self.state).decode("ascii")
        origin = ("source", "format", "sha256", "n_examples", "n_quarantined")
        return file.FrozenConfig(
            score=file.ScoreSpecConfig.model_validate({**self.spec, "state": state}),
            promise=self.report.promise,
            requirement=self.report.requirement,
            **self.rule.to_dict(),
            policy=file.Policy(undefined=self.calibration.undefined, failure=on_failure),
            data=file.DataRecord(
                **{name: self.data[name] for name in origin},
                n_hallucinated=self.data.get("n_hallucinated"),
                known_by=self.data.get("known_by"),
                looked_at=self.data.get("looked_at"),
                seed=self.data["split"]["seed"],
                calibration_examples=list(self.calibration_examples),
                sketches=self.sketches,
                reading=frozen_reading(self.data.get("reading")),
                choice=self.data.get("choice"),
            ),
            headline=file.Headline(
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
                cost=report.get("cost"),
                certificate=file.certificate_bounds(certificate),
                three_way=report["three_way"],
                by_group=by
                and {"rows": [{k: row[k] for k in kept if k in row} for row in by["rows"]]},
            ),
            versions=dict(self.versions),
            traffic=self.traffic,
        )

    def _calibration_dict(self) -> dict[str, Any]:
        rule = self.rule.to_dict()
        return {
            "schema": SCHEMA,
            **rule.pop("calibration"),
            "by": self.report.promise.by,
            **rule,
            "risks": list(self.report.requirement.risks),
            "score": dict(self.spec),
            "state_sha256": None if self.state is None else hashlib.sha256(self.state).hexdigest(),
            "data": dict(self.data),
            "calibration_examples": self.calibration_examples,
            **({} if self.sketches is None else {"sketches": self.sketches}),
            **({} if self.classes is None else {"classes": dict(self.classes)}),
            **({} if self.traffic is None else {"traffic": self.traffic.model_dump()}),
            "versions": dict(self.versions),
        }


def chosen_run(candidate: Run | None, *, best: bool) -> Run:
    """Return the run of what a comparison chose, or refuse where it has no winner to freeze."""
    if candidate is None:
        raise InputError(say("refused.nothing_chosen"))
    if not (best or candidate.data["choice"]["winner"]):
        raise InputError(say("refused.no_winner", name=candidate.report.score["key"]))
    return candidate


def score_config(score: Score, unit: Unit = "answer") -> dict[str, Any]:
    """Return what pins a detector of answers or sentences: its spec and its fingerprint."""
    return {
        "name": score.name,
        "params": given_back(score.params),
        "fingerprint": frozen_fingerprint(score, unit),
        "tolerance": float(score.tolerance),
    }


def calibration_rows(
    labels: NDArray[np.int8],
    codes: NDArray[np.int8],
    digests: NDArray[np.uint64],
    *,
    both: bool = False,
    learnt: bool = False,
) -> NDArray[np.intp]:
    """Return the rows of the hallucinated calibration examples, or of all, by their digests.

    Those that the score has learnt from are among them: it knows their labels.
    """
    rows = (codes == splits.CALIBRATION) & (both | (labels == 1))
    rows |= learnt & (codes == splits.FIT)
    chosen = np.flatnonzero(rows)
    return chosen[np.argsort(digests[chosen], kind="stable")]


def run_of(scored: Scored, report: Report, rule: Rule, codes: NDArray[np.int8], **data: Any) -> Run:
    """Return the run of the first detector, ready to be saved and frozen; ``data`` is kept too."""
    detector = scored.detectors[0]
    state = state_bytes(detector)
    # With a second class behind the thresholds, certify must know its examples, too.
    both = rule.upper is not None or not (rule.ranked or rule.groups)
    digests, learnt = scored.known_by.digests, state is not None
    rows = calibration_rows(scored.table.labels, scored.codes, digests, both=both, learnt=learnt)
    return Run(
        report=report,
        rule=rule,
        spec=score_config(detector, report.promise.unit),
        data={**scored.data, **data},
        calibration_examples=hex_digests(digests[rows]),
        sketches=None if scored.sketches is None else scored.sketches.of_rows(rows).to_text(),
        state=state,
        versions=installed_versions(),
        table=scored.table,
        codes=codes,
        sentences=scored.sentences,
        classes=class_scores(scored, assume_independent=report.requirement.assume_independent),
        sketched=cache(partial(traffic_sketch, scored, report)),
    )


def _sample(scored: Scored, *, assume_independent: bool) -> Sample:
    """Return the first detector's scores; of each group counts who has the lowest lot."""
    sample = replace(scored.sample(0), independent=assume_independent)
    if sample.groups is not None and not assume_independent:
        sample = replace(sample, lot=scored.lots)
    return sample


def traffic_sketch(scored: Scored, report: Report) -> calibrail.guardrail.TrafficSketch | None:
    """Return what a watch compares traffic with: what the labelled answers look like.

    While nothing changes, these answers and the stream are exchangeable, whatever the threshold was
    made of; those that the detector has learnt from are not. Their order is that of their lots.
    """
    if scored.sentences is not None:
        return None

    sample = _sample(scored, assume_independent=report.requirement.assume_independent)
    whole = np.where(sample.split == splits.FIT, splits.FIT, splits.TEST).astype(np.int8)
    sample = replace(sample, split=whole)
    rows = np.flatnonzero(sample.drawn(splits.TEST))
    if len(rows) > _MANY:
        # Of so many the order of the rows may tell, which needs no copy of them all.
        rows = np.unique(rows[np.random.default_rng(0).integers(0, len(rows), _MANY // 10)])
    # Rows that share a digest and all else are numbered, so that a hash draws among them, too.
    told = scored.known_by.digests[rows] ^ example.mix64(sample.values[rows].view(np.uint64))
    told ^= sample.labels[rows].astype(np.uint64)
    alike = np.argsort(told, kind="stable")
    first = np.flatnonzero(np.diff(told[alike], prepend=~told[alike[:1]]))
    number = np.arange(len(rows)) - np.repeat(first, np.diff(first, append=len(rows)))
    lots = example.mix64(told[alike] + example.mix64(number.astype(np.uint64)))
    rows = rows[alike[np.argsort(lots, kind="stable")[: file.MOST_SKETCHED]]]
    answers = scored.answers
    texts = [example.Example() if answers is None else answers[row] for row in rows.tolist()]
    found = [measure_texts(item.question, item.contexts, item.response) for item in texts]
    cost = report.cost or {}
    return file.TrafficSketch(
        hallucinated=sample.labels[rows].tolist(),
        score=[None if np.isnan(value) else value for value in sample.values[rows].tolist()],
        **{name: [item[name] for item in found] for name in file.TrafficSketch.MEASURED},
        base_rate=cost["costs"]["base_rate"] if cost.get("base_rate_is") == "given" else None,
    )


#: Rows above which a sketch is drawn by their numbers.
_MANY: Final = 1_000_000


def class_scores(
    scored: Scored, *, assume_independent: bool
) -> Mapping[str, Sequence[float]] | None:
    """Return the scores of both classes by which P(hallucinated) can be told; see `Run`."""
    if scored.sentences is not None:
        return None
    sample = _sample(scored, assume_independent=assume_independent)
    calibrating = bool((sample.split == splits.CALIBRATION).any())
    drawn = sample.drawn(splits.CALIBRATION if calibrating else splits.TEST)
    drawn &= np.isfinite(sample.values)
    return {
        name: array("d", np.sort(sample.values[drawn & (sample.labels == label)]).tobytes())
        for name, label in CLASSES.items()
    }


def frozen_config(
    guardrail: calibrail.Guardrail | calibrail.guardrail.FrozenConfig | str | PathLike[str],
) -> tuple[calibrail.guardrail.FrozenConfig, Path | None]:
    """Return what a guardrail holds, and the file it was read from; its detector is not built."""
    if isinstance(guardrail, file.FrozenConfig):
        return guardrail, None
    if isinstance(guardrail, str | PathLike):
        config, origin = file.read_file(guardrail)
        return config, origin.path
    loaded = runtime.Guardrail.coerce(guardrail)
    return loaded.config, None if loaded.origin is None else loaded.origin.path


def frozen_limits(config: calibrail.guardrail.FrozenConfig) -> tuple[float | None, float | None]:
    """Return the coverage that a guardrail promises and the FPR that it may not exceed.

    Either is None where nobody named it, or where it is no share between 0 and 1.
    """
    requirement = config.requirement
    kept = {risk.name: risk.level for risk in map(conformal.parse_risk, requirement.risks)}
    coverage = kept.get("recall") if kept else requirement.coverage(config.promise)
    fpr = kept.get("fpr") if kept else requirement.max_fpr
    least, most = (it if it is not None and 0.0 < it < 1.0 else None for it in (coverage, fpr))
    return least, most


def refuse_other_flags(
    config: calibrail.guardrail.FrozenConfig,
    scores: Floats,
    flagged: Bools,
    groups: Sequence[str | None],
    path: Path,
) -> None:
    """Refuse flags that the frozen threshold does not give to the scores beside them.

    Parameters
    ----------
    config : FrozenConfig
        The guardrail.
    scores, flagged : ndarray of shape (n,)
        Of answers drawn; NaN where undefined, of which the policy says what becomes.
    groups : sequence of str or None
        Theirs; where the guardrail has thresholds by group, answers without one are not looked at.
    path : Path
        The file, whose line n holds the n-th answer.

    Raises
    ------
    DataError
        The line is named.
    """
    rule, names = Rule.from_dict(vars(config)), None
    known = ~np.isnan(scores)
    if rule.groups is not None:
        known &= np.array([group is not None for group in groups], np.bool_)
        names = [str(group) for group, is_known in zip(groups, known, strict=True) if is_known]
    places = np.flatnonzero(known)
    codes = rule.decide(scores[places], names, config.score.tolerance)
    for index in np.flatnonzero((codes > 0) != flagged[places])[:1].tolist():
        place, outcome = int(places[index]), conformal.DECISIONS[int(codes[index])]
        where, said = f"{path}, line {place + 1}", str(bool(flagged[place])).lower()
        raise DataError.on(
            "flag_changed", where=where, score=scores[place], outcome=outcome, said=said
        )
