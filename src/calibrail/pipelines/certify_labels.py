"""Certification from a folder of labels."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil
from os import PathLike
from pathlib import Path
from typing import Any, Final, cast

import numpy as np

from calibrail.atomic_files import write_atomically
from calibrail.conformal import Bound, Certificate, GroupVerdict
from calibrail.conformal.bounds import exact_bound
from calibrail.conformal.certificate import REASON_CODES, Verdict
from calibrail.conformal.sequential.forecast import LabelsLeft, labels_alone, labels_left
from calibrail.conformal.sequential.sequential_test import SequentialCertificate
from calibrail.errors import InputError, file_errors
from calibrail.evaluation.judge_agreement import kappa
from calibrail.evaluation.measures import Delivered
from calibrail.formatting import Shown
from calibrail.guardrail.file import FrozenConfig
from calibrail.guardrail.runtime import Guardrail
from calibrail.labelling.folder import GUARDRAIL, read_plan
from calibrail.labelling.replay import Point, Replay, replay
from calibrail.options import Requirement, fields
from calibrail.pipelines import data_reuse, independence, look_overlap
from calibrail.pipelines.calibration_overlap import Freshness, revised, withdrawn_for, without_proof
from calibrail.pipelines.run import frozen_config, refuse_other_flags, write_page
from calibrail.report.documents import label as words
from calibrail.report.messages import say, spell_reasons
from calibrail.serialization import json_parts, plain


@dataclass(frozen=True, slots=True, repr=False, kw_only=True)
class Certification(Shown):
    """A certificate with the counts behind it.

    Attributes
    ----------
    certificate : Certificate
        Verdict, exact bounds, and how many more examples would settle an inconclusive one.
    by : str or None
        Column of the groups.
    groups : mapping of str to GroupVerdict, or None
        Every group's own verdict; all of them hold together.
    risks : list of dict, or None
        Each risk that the threshold was chosen to keep, with its exact bound; they hold together.
    blocked : Bound or None
        With a review: the share of faithful answers that were flagged, not merely reviewed.
    n_seen_before : int
        Hallucinated calibration examples found in the data and left out.
    n_near_copies : int
        Those of them that are nearly the same, word for word.
    known_as_spelt : bool
        Whether the guardrail knows them by their exact spelling alone, as earlier versions did.
    n_set_aside : int
        Answers that did not count, since another one of their group and class did.
    assumed_independent : int
        Answers that share their group with an earlier one of their class, and that counted
        nevertheless, since the requirement takes all answers as independent.
    n_undefined, n_errors : int
        Answers without a score (of a guardrail of sentences: with a sentence without one), and
        answers on which the detector failed, which were not passed.
    n_quarantined : int
        Rows that could not be read.
    reading : mapping
        How the data was read: columns, options, what labels meant.
    warnings : tuple of str
        What weakens the certificate, in plain words.
    data : mapping
        What the data is called, and how many answers were read.
    freshness : {"new", "calibration data", "unknown", "declared"}
        Whether the answers are other ones than those that set the threshold: as seen, or as the
        user says where that cannot be seen.
    copies : mapping
        Answers that were taken for copies, word for word or nearly, as ``n``, their groups, the
        ``largest`` of these, and how many were known by their scores alone, as ``n_by_scores``.
    near_copies : mapping or None
        Where answers may be near copies: how many, as ``n``, and the figures where those count
        ``once``, where ``each`` of them does, at ``worst``: once where decided rightly, each where
        wrongly, and at ``best``, the reverse. What is certified is so at worst, too, and what is
        rejected at best.
    possible : mapping or None
        Of a verdict that is not ``certified``: what other thresholds would do about either limit.
    cost : mapping or None
        Of a guardrail that states what its errors cost: what they cost on these answers, for its
        base rate (``calibrail.evaluation.sections.expected_cost``).
    looks : tuple of mapping
        Earlier looks at this guardrail, its own report's among them where that is at answers of
        this data, with the share of the answers that each was the first to look at.
    look : mapping or None
        Where looks are kept: the ``number`` of this one, with which probability it may err
        (``level``), the ``confidence`` that was asked, how likely all of them err ``together``,
        what it leaves of that (``left``) and of this the next one takes (``next_level``), how many
        were ``declared``; of an inconclusive one, how many more answers the next one ``needed`` at
        its level, if all are taken together.
    sequential : mapping or None
        Of a verdict from a folder of labels, which holds at any time: the e-processes, what was
        drawn and labelled, how two people agree, and how many more labels to expect.
    torn : tuple of str
        Files of labels whose last line a crash had torn, and which is cut off now; not part of
        ``to_dict``, which is the same ever after.
    delivered : Delivered or None
        Of a guardrail of sentences: what is freed, kept, emptied, left whole and reviewed.
    failed : Bound or None
        Of a guardrail of sentences: answers on which the detector failed. Nothing of them is shown,
        so that they count as freed and keep nothing; they are not among the reviewed ones.
    n_undefined_sentences : int
        Of a guardrail of sentences: those without a score.
    """

    shown_as = "certify"

    certificate: Certificate
    by: str | None = None
    groups: Mapping[str, GroupVerdict] | None = None
    risks: list[dict[str, Any]] | None = None
    blocked: Bound | None = None
    n_seen_before: int
    n_set_aside: int = 0
    assumed_independent: int = 0
    n_undefined: int
    n_errors: int = 0
    n_quarantined: int
    reading: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    data: Mapping[str, Any]
    freshness: Freshness = "new"
    looks: tuple[Mapping[str, Any], ...] = ()
    look: Mapping[str, Any] | None = None
    copies: Mapping[str, int] = field(default_factory=dict)
    sequential: Mapping[str, Any] | None = None
    torn: tuple[str, ...] = ()
    delivered: Delivered | None = None
    failed: Bound | None = None
    n_undefined_sentences: int = 0
    n_near_copies: int = 0
    known_as_spelt: bool = False
    near_copies: Mapping[str, Any] | None = None
    possible: Mapping[str, Any] | None = None
    cost: Mapping[str, Any] | None = None

    @property
    def verdict(self) -> Verdict:
        """``certified``, ``rejected`` or ``inconclusive``."""
        return self.certificate.verdict

    def to_dict(self) -> dict[str, Any]:
        """Return what ``calibrail certify --json`` prints."""
        by_group, trimming = None, {}
        if self.groups is not None:
            rows = [{"group": name, **item.to_dict()} for name, item in sorted(self.groups.items())]
            by_group = {"column": self.by, "confidence": self.certificate.confidence, "rows": rows}
        if self.delivered is not None:
            names = ("failed", "n_undefined_sentences")
            trimming = {"unit": "sentence", **self.delivered.to_dict(), **self._plain(*names)}
        seen = ("n_seen_before", "n_near_copies", "n_set_aside", "assumed_independent")
        counts = (*seen, "n_undefined", "n_errors", "n_quarantined")
        later = ("known_as_spelt", "near_copies", "possible", "cost", "sequential")
        return {
            "schema": "calibrail.certificate/1",
            **self.certificate.to_dict(),
            **trimming,
            **self._plain("risks", "blocked", *counts),
            **self._plain("copies", "reading", "warnings", "data", "freshness", "looks"),
            **({} if self.look is None else self._plain("look")),
            "by_group": by_group,
            **{name: it for name, it in self._plain(*later).items() if it not in (None, False)},
        }

    def _plain(self, *names: str) -> dict[str, Any]:
        return {name: plain(getattr(self, name)) for name in names}


#: Files of the verdict in the folder of labels.
VERDICT, PAGE = "verdict.json", "index.html"
#: Digits to which courses are kept: they are drawn.
_DIGITS: Final = 6


def certify_labels(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str] | None,
    folder: str | PathLike[str],
    requirement: Requirement | None = None,
    *,
    looks: data_reuse.LooksFile = None,
    fresh: bool = False,
    judge_column: str | None = None,
) -> Certification:
    """Recompute the verdict of a folder of labels from its files alone.

    The same files and looks give the same ``to_dict``: no times are in it.

    Parameters
    ----------
    guardrail : Guardrail or path, or None
        The one that the labels are about; None for the copy in the folder.
    folder : path
        That ``calibrail label`` wrote.
    requirement : Requirement, optional
        What was asked before the first label; any other one is refused.
    looks : path or False, optional
        File that keeps the looks at this guardrail; left out, the one beside it. False keeps none.
    fresh : bool
        Whether the answers are other ones than those that set the threshold, where their rows
        cannot tell.
    judge_column : str, optional
        The judge that the labels were begun with; any other one is refused: it would be chosen
        after them.

    Raises
    ------
    DataError
        A file is missing or damaged; the file and the line are named.
    InputError
        The labels are about another guardrail or another requirement, or about none.
    """
    place = fields.path(folder, "labels")
    plan = read_plan(place)
    if plan.purpose == "watch":
        raise InputError(say("refused.labels_are_watched", place=place))
    if plan.requirement is None or plan.guardrail is None:
        raise InputError(say("refused.labels_for_a_threshold", folder=place))
    if judge_column not in (None, plan.judge):
        judges = {"judge": judge_column, "then": plan.judge}
        raise InputError(say("refused.judge_after_labels", judges, folder=place))
    asked = plan.asked or plan.requirement
    frozen, file = frozen_config(place / GUARDRAIL if guardrail is None else guardrail)
    history = data_reuse.history_of_labels(plan, None if guardrail is None else file, looks)
    if frozen.digest != plan.guardrail:
        about = {"then": plan.guardrail[:19], "now": frozen.digest[:19], "copy": place / GUARDRAIL}
        raise InputError(say("refused.labels_of_another", about, place=place))
    if requirement is not None:
        _refuse_other(requirement, asked, place)
    replayed = replay(place)
    draws = [item.draw for item in replayed.answers]
    refuse_other_flags(
        frozen,
        np.array([np.nan if draw.score is None else draw.score for draw in draws], np.float64),
        np.array([bool(draw.flagged) for draw in draws], np.bool_),
        # Those of traces stand in a column that is not kept.
        [None] * len(draws),
        place / "draws.jsonl",
    )
    test = replayed.test
    assert test is not None
    made, expect = test.certificate(), _expected(replayed)
    labels, traces = replayed.labels(), plan.traces
    freshness = cast(Freshness, traces.freshness)
    fields.yes_or_no(fresh, "fresh")
    if freshness == "unknown" and fresh:
        freshness = "declared"
    both = ("verdict", "coverage", "fpr", "coverage_at_least", "fpr_at_most", "region")
    certificate = Certificate(
        reason=words.reason(made.to_dict(), labels),
        needed=_needed(made, expect),
        reason_code=REASON_CODES[made.verdict],
        **{name: getattr(made, name) for name in (*both, "min_coverage", "max_fpr", "confidence")},
    )
    certificate, _ = revised(certificate, None, partial(without_proof, freshness=freshness))
    reading, judge = dict(plan.reading), replayed.judge()
    if judge is not None:
        reading["settings"] = {**reading.get("settings", {}), "labelled_by": judge}
    judged = partial(independence.settled, n_alike=0, assumed=False, judge=judge)
    certificate, _ = revised(certificate, None, judged)
    blind = replayed.blind_verdict()
    if certificate.verdict == "certified" and blind not in (None, "certified"):
        mended = withdrawn_for("reviewed", say("verdict.reviewed", blind=blind))
        certificate, _ = revised(certificate, None, lambda item: {**item, **mended})
    # At the answers with whose labels the verdict fell, or at all so far.
    decided_by = [item for item in replayed.decided_by if item.draw.handed_out]
    look = data_reuse.look_at_labels(place, plan, decided_by)
    standing = data_reuse.record_labels(history, look, plan, *look_overlap.own_look(frozen))
    again = partial(data_reuse.certificate_after_reuse, standing=standing, spends=True)
    certificate, _ = revised(certificate, None, again)
    history.conclude(frozen.digest, look, certificate.verdict)
    annotators = Counter(name for item in replayed.answers for name in item.labels)
    sequential = {
        **made.to_dict(),
        "drawing": plan.drawing.to_dict(),
        "seed": plan.seed,
        "shared": plan.shared,
        "balance": plain(plan.balance),
        "n_drawn": len(replayed.answers),
        "n_counted": replayed.counted,
        "labels": dict(labels),
        "n_unsure": test.n_unsure,
        "n_skipped": replayed.skipped,
        "n_undone": replayed.undone,
        "n_undone_decided": replayed.undone_decided,
        "n_reviewed": sum(bool(item.blind) for item in replayed.counting),
        "n_changed": sum(item.changed for item in replayed.counting),
        "blind_verdict": blind,
        "lost": dict(replayed.lost),
        "n_waiting": sum(item.standing in ("open", "disagreement") for item in replayed.answers),
        "exhausted": replayed.exhausted,
        "held_up": replayed.held_up(),
        "annotators": dict(sorted(annotators.items())),
        "agreement": agreement(replayed),
        "judge": _judge_beside(replayed),
        "expect": expect.to_dict(),
        "course": _course(replayed.points),
        "withheld": not standing.share,
    }
    result = Certification(
        certificate=certificate,
        n_seen_before=traces.n_seen_before,
        n_undefined=sum(item.draw.score is None for item in replayed.counting),
        n_quarantined=traces.n_quarantined,
        reading=reading,
        data={"source": ", ".join(traces.paths), "n_examples": traces.n},
        freshness=freshness,
        looks=tuple(data_reuse.to_report_rows(standing.earlier)),
        look=standing.to_dict(asked.confidence) if history.keeps else None,
        sequential=sequential,
        torn=replayed.torn,
    )
    content = result.to_dict()
    warnings = *words.warnings(content), *words.doubts(content)
    return replace(result, warnings=independence.naming_judge(warnings, frozen, judge))


def write_verdict(result: Certification, folder: str | PathLike[str]) -> Path:
    """Write ``verdict.json`` and the page ``index.html`` into a folder of labels.

    Returns
    -------
    Path
        The page.
    """
    place, content = Path(folder), result.to_dict()
    with file_errors(f"cannot write into the folder {place}", "; name another one"):
        write_atomically(place / VERDICT, json_parts(content))
        write_page(words.label_document(content).naming(LABELS=place), place / PAGE)
    return place / PAGE


def _needed(made: SequentialCertificate, expect: LabelsLeft) -> dict[str, int | None]:
    """Return how many more labels of each class to expect, at the shares seen."""
    if expect.unforeseeable == "decided":
        return {"hallucinated": 0, "faithful": 0}
    if expect.median is None:
        return {"hallucinated": None, "faithful": None}
    share = made.coverage.n / (made.coverage.n + made.fpr.n)
    parts = {"hallucinated": share, "faithful": 1.0 - share}
    return {name: ceil(expect.median * part) for name, part in parts.items()}


def agreement(replayed: Replay) -> dict[str, Any] | None:
    """Return how far two people agree on answers that both labelled; None without any.

    Shares and kappa have intervals of 95 %, each at its own level.
    """
    table, unsure = replayed.double_labels()
    n = int(table.sum())
    party = [it.settled.annotator in it.labels for it in replayed.answers if it.settled]
    if not n and not unsure:
        return None
    return {
        "n": n,
        "agreed": exact_bound(int(np.trace(table)), n, 0.95).to_dict(),
        "kappa": spell_reasons(kappa(table)).to_dict(),
        "unsure": unsure,
        "open": sum(item.standing == "disagreement" for item in replayed.answers),
        "settled": len(party),
        "settled_by_one_of_them": sum(party),
    }


def _judge_beside(replayed: Replay) -> dict[str, Any] | None:
    """Return what was done with a judge: what its word counts for, and the labels it saved.

    ``said`` and ``unsaid`` are the mean P(hallucinated) that was guessed of the later half of the
    answers drawn, where the judge says hallucinated (a number above the mean), and elsewhere.
    """
    if replayed.plan.judge is None:
        return None
    drawn = [item.draw for item in replayed.counting]
    late = drawn[len(drawn) // 2 :]
    guesses = np.array([draw.guess for draw in late], np.float64)
    says = np.array([draw.column for draw in late], np.float64)
    above = says > says.mean() if len(says) else says > 0.0
    sides = (guesses[side].mean() if side.any() else None for side in (above, ~above))
    said, unsaid = (None if mean is None else round(float(mean), _DIGITS) for mean in sides)
    return {
        "column": replayed.plan.judge,
        "said": said,
        "unsaid": unsaid,
        "drawn": len(drawn),
        "labelled": sum(draw.handed_out for draw in drawn),
        "alone": None if replayed.test is None else labels_alone(replayed.test),
    }


def _refuse_other(given: Requirement, begun: Requirement, folder: Path) -> None:
    """Refuse limits that are not those that the labels were begun with."""
    for name in ("max_fpr", "min_coverage", "confidence"):
        value, then = getattr(given, name), getattr(begun, name)
        if name == "confidence" and value == Requirement().confidence:
            continue
        if value is not None and value != then:
            about = {"name": name, "then": f"{then:g}", "now": f"{value:g}"}
            raise InputError(say("refused.other_limits", about, folder=folder))
    if given.risks or given.assume_independent:
        raise InputError(say("refused.for_held_out_answers"))


def _expected(replayed: Replay) -> LabelsLeft:
    drawn, test = [item.draw for item in replayed.counting], replayed.test
    assert test is not None
    units = max(1, test.certifying.drawn)
    return labels_left(
        test,
        [bool(draw.flagged) for draw in drawn],
        [0.5 if draw.guess is None else draw.guess for draw in drawn],
        per_unit=max(1.0, len(drawn) / units) if replayed.plan.drawing.whole_groups else 1.0,
        seed=replayed.plan.seed % 2**32,
    )


def _course(points: Sequence[Point]) -> dict[str, Any]:
    """Return the points of a replay by column, as figures take them."""

    def rounded(values: Sequence[float | None]) -> list[float | None]:
        return [None if value is None else round(value, _DIGITS) for value in values]

    names = ("coverage_kept", "coverage_broken", "fpr_kept", "fpr_broken")
    return {
        "drawn": [point.drawn for point in points],
        "labelled": [point.labelled for point in points],
        **{
            name: rounded([point.log_wealth[index] for point in points])
            for index, name in enumerate(names)
        },
        **{
            name: {
                end: rounded([getattr(getattr(point, name), end) for point in points])
                for end in ("estimate", "lower", "upper")
            }
            for name in ("coverage", "fpr")
        },
    }
