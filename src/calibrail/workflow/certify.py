"""Does a frozen guardrail keep its promise on data that it has never seen?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Unpack

from calibrail.conformal import (
    Certificate,
    Counts,
    GroupVerdict,
    Risk,
    certify_counts,
    certify_groups,
    exact_bound,
    parse_risk,
)
from calibrail.conformal.trim_certificate import certify_group_trimming, certify_trimming
from calibrail.data.reading import Reading
from calibrail.data.sources import Source
from calibrail.errors import DataError, InputError
from calibrail.evaluation.sections.measured_risks import risk_bounds, risk_verdict
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.runtime import Guardrail
from calibrail.report.documents.calibrate_findings import assumed, risks_reason
from calibrail.report.documents.certify_warnings import certify_warnings
from calibrail.settings import ReadOptions, Requirement, checks
from calibrail.settings.option import either, option_of
from calibrail.settings.short import collect_requirement
from calibrail.workflow.alike import settled_certificates
from calibrail.workflow.arrays import ArraysShort, source_of
from calibrail.workflow.certification import Certification
from calibrail.workflow.certify_labels import certify_labels
from calibrail.workflow.context import Progress
from calibrail.workflow.freshness import Fresh, without_proof
from calibrail.workflow.inherited import inherited
from calibrail.workflow.look import Look, told
from calibrail.workflow.looks import Looks, left_of
from calibrail.workflow.sources import batches, columns_of, open_for
from calibrail.workflow.tally import Tally
from calibrail.workflow.trim_tally import TrimTally


def certify(
    guardrail: Guardrail | FrozenConfig | str | PathLike[str],
    source: Source | None = None,
    requirement: Requirement | None = None,
    *,
    by: str | None = None,
    fresh: bool = False,
    reading: ReadOptions | None = None,
    progress: Progress | None = None,
    looks: str | PathLike[str] | None = None,
    **short: Unpack[ArraysShort],
) -> Certification:
    """Certify, reject or leave open, on fresh labelled answers.

    The decisions are the guardrail's own, one by one the same as in production. Hallucinated
    answers that set the threshold are recognised by their digest and left out, since a threshold
    cannot be tested on what it was made from. Where groups hold several answers of a class, one
    answer of each counts, which the digest of its content decides.

    Parameters
    ----------
    guardrail : Guardrail, FrozenConfig or path
        The frozen guardrail, its content, or its file.
    source : path, str or data in memory
        Labelled answers that neither the calibration nor its report has used.
    requirement : Requirement, optional
        Its ``max_fpr`` is the share of faithful answers that may be held back. It is needed, unless
        the threshold was chosen to keep risks: those are certified then. A guardrail that removes
        sentences needs a ``min_kept`` in its place. ``confidence`` is that of all bounds together.
    by : str, optional
        Column of groups that get a verdict each, corrected for their number.
    fresh : bool
        Says that none of the answers set the threshold, where that cannot be told from them: rows
        of scores with neither texts nor ids, of which many are alike. The verdict repeats it.
    reading : ReadOptions, optional
        How to read the file.
    progress : callable, optional
        Called with the number of answers so far.
    looks : path, optional
        File that keeps at what data this guardrail was looked at. Where a tenth of these answers
        was looked at before, nothing is certified. The command keeps one beside the guardrail; of
        the answers that the guardrail's own report tested, the guardrail knows by itself.
    **short
        In a short call, fields of the requirement: ``max_fpr``, ``min_coverage``, ``min_kept``,
        ``confidence``. For a guardrail on scores of another program, ``scores`` and ``labels`` (and
        ``groups`` and ``ids``), one value per answer, in place of ``source``. ``labels`` alone may
        be the folder that ``calibrail label`` wrote: its verdict is recomputed from the files, and
        holds at whatever label one looks.

    Returns
    -------
    Certification

    Raises
    ------
    DataError
        If a class is missing.
    """
    keywords = dict[str, Any](short)
    if isinstance(folder := keywords.get("labels"), str | PathLike):
        _refuse_beside(source=source, by=by, reading=reading)
        short_limits = {name: value for name, value in keywords.items() if name != "labels"}
        if requirement is not None or short_limits:
            requirement = collect_requirement(requirement, short_limits, certify)
        return certify_labels(guardrail, folder, requirement, looks=looks, fresh=fresh)
    guardrail = Guardrail.of(guardrail)
    column = guardrail.score.params.get("column") if guardrail.score.name == "column" else None
    checks.column(by, "by")
    source = source_of(source, keywords, column)
    requirement = collect_requirement(requirement, keywords, certify)
    risks = tuple(parse_risk(risk) for risk in guardrail.config.requirement.risks)
    limits = _limits(guardrail, requirement, risks)
    reading, history = inherited(reading, guardrail, source, labelled=True), Looks(looks)
    trimming = guardrail.unit == "sentence"
    keep = () if by is None else (by,)
    examples = open_for(guardrail, source, reading, keep=keep, by_sentence=trimming)
    _refuse_stopped(examples, guardrail)
    once, columns = not requirement.assume_independent, columns_of([guardrail.score])
    seen, tally = Fresh(guardrail), Tally(by, once=once, columns=columns)
    if trimming:
        share = reading.span_share if reading is not None else 0.0
        tally = TrimTally(by, share=share, once=once, columns=columns)
    for batch in batches(filter(seen.admits, examples)):
        for example, decision in zip(batch, guardrail.decide(batch), strict=True):
            tally.add(example, decision)
        if progress is not None:
            progress(tally.n_answers)
    # Risks are about answers of both classes, so that one answer of a group counts for them.
    counts = tally.counts(per_class=not risks)
    for n, label, name in (
        (counts.n_hallucinated, 1, "hallucinated"),
        (counts.n_faithful, 0, "faithful"),
    ):
        if n == 0:
            n_seen = seen.n_seen_before if label == 1 else 0
            left_out = f" ({n_seen} were left out as calibration examples)" if n_seen else ""
            raise DataError(
                f"no fresh {name} example to certify on{left_out}; a certificate needs "
                "labelled answers of both classes that the calibration has not seen"
            )
    certificate, measured = _certified(tally, counts, limits), None
    if risks:
        measured = risk_bounds(risks, counts, requirement.confidence)
        verdict = risk_verdict(measured)
        reason = risks_reason(verdict, measured)
        certificate = replace(certificate, verdict=verdict, reason=reason, flips=None)
    n_assumed = tally.n_sharing if requirement.assume_independent else 0
    certificate = replace(certificate, reason=certificate.reason + assumed(n_assumed))
    groups: Mapping[str, GroupVerdict] | None = None
    if by is not None:
        groups = (
            certify_group_trimming(tally.kept_by_group(), limits)
            if isinstance(tally, TrimTally)
            else certify_groups(tally.by_group(), limits)
        )
    blocked = None
    if guardrail.rule.upper is not None:
        blocked = exact_bound(tally.n_flagged(), counts.n_faithful, requirement.confidence)
    sha256 = examples.digest()
    if tally.n_answers > counts.n_hallucinated + counts.n_faithful:
        # A flip may also change which answer of a group counts, for both classes.
        certificate = replace(certificate, flips=None)
    freshness = seen.freshness(sha256, declared=fresh)
    certificate, groups = without_proof(certificate, groups, freshness)
    certificate, groups = settled_certificates(
        certificate, groups, tally.n_alike, assumed=requirement.assume_independent
    )
    look = tally.looked_at.look(assumed=requirement.assume_independent)
    own = guardrail.config.data.looked_at
    earlier = history.record(
        guardrail.config.digest,
        replace(look, verdict=certificate.verdict),
        *(() if own is None else (Look.from_dict(own),)),
        in_its_place=True,
    )
    certificate, groups = left_of(certificate, groups, earlier)
    result = Certification(
        certificate=certificate,
        by=by,
        groups=groups,
        risks=measured,
        blocked=blocked,
        n_seen_before=seen.n_seen_before,
        n_set_aside=tally.n_answers - counts.n_hallucinated - counts.n_faithful,
        assumed_independent=n_assumed,
        n_undefined=tally.n_undefined,
        n_errors=tally.n_errors,
        n_quarantined=examples.n_quarantined,
        reading=examples.how(),
        warnings=(),
        data={"source": examples.source, "n_examples": examples.n_examples},
        freshness=freshness,
        looks=tuple(told(earlier)),
        copies=tally.copies.counted(),
    )
    if isinstance(tally, TrimTally):
        result = replace(
            result,
            delivered=tally.delivered(requirement.confidence),
            failed=tally.failed(requirement.confidence),
            n_undefined_sentences=tally.n_undefined_sentences,
        )
    warnings = certify_warnings(
        result.to_dict(),
        same_file=sha256 is not None and sha256 == guardrail.config.data.sha256,
        policy=guardrail.config.policy.undefined,
    )
    return replace(result, warnings=tuple(warnings))


def _certified(tally: Tally, counts: Counts, limits: Requirement) -> Certificate:
    if isinstance(tally, TrimTally):
        return certify_trimming(counts, tally.kept(), limits)
    return certify_counts(counts, limits)


def _refuse_stopped(examples: Reading, guardrail: Guardrail) -> None:
    """Refuse labels of a folder that is looked at while it grows: one look is one too many."""
    origin = examples.origin
    if origin is not None and origin.purpose == "watch":
        raise DataError(
            f"{examples.source} holds labels of answers that are drawn from a decision log as it "
            "grows; what they show, whenever one looks, is told by `calibrail monitor` with "
            f"{either('--labels', 'labels=...')}. A verdict by itself needs answers labelled for it"
        )
    if origin is None or origin.purpose != "certify":
        return
    remedy = (
        "their own verdict, valid whenever labelling stopped, is read with "
        f"{either('--labels', 'labels=...')}"
        if origin.guardrail == guardrail.config.digest
        else "they were drawn for another guardrail: label new answers for this one"
    )
    raise DataError(
        f"{examples.source} holds labels for a verdict, and labelling stops when that falls; a "
        f"verdict on a number of answers fixed beforehand would be wrong too often: {remedy}"
    )


def _refuse_beside(**given: Any) -> None:
    """Refuse what is for held-out answers, beside a folder of labels."""
    names = {"source": "the data", "by": "by", "reading": "reading"}
    for name, value in given.items():
        if value is not None:
            raise InputError(
                f"leave out {names[name]}: a folder of labels knows which answers it is about, and "
                "how they were read"
            )


def _limits(guardrail: Guardrail, requirement: Requirement, risks: Sequence[Risk]) -> Requirement:
    """Return the requirement with the coverage and the FPR that are meant where it leaves them."""
    if requirement.risks:
        raise InputError(
            "the risks that a guardrail keeps are frozen in it, and those are certified; leave out "
            f"risks, and calibrate with {option_of(Requirement, 'risks')} for others"
        )
    requirement.check_unit(guardrail.config.promise)
    if guardrail.unit == "sentence" and requirement.min_kept is None:
        raise InputError(
            f"{option_of(Requirement, 'min_kept')} must be given: what share of supported "
            "sentences must be left, on average? A guardrail that removes everything frees every "
            "answer"
        )
    if not risks:
        if requirement.max_fpr is None and guardrail.unit == "answer":
            raise InputError(
                f"{option_of(Requirement, 'max_fpr')} must be given: how many faithful answers may "
                "be held back?"
            )
        return replace(requirement, min_coverage=requirement.coverage(guardrail.config.promise))
    if requirement.max_fpr is not None or requirement.min_coverage is not None:
        raise InputError(
            f"this guardrail was chosen to keep {', '.join(map(str, risks))}, and that is what is "
            "certified; leave out max_fpr and min_coverage"
        )
    levels = {risk.name: risk.level for risk in risks}
    return Requirement(levels.get("fpr"), levels.get("recall", 0.0), requirement.confidence)
