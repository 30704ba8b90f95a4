from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibrail.conformal import ClassCounts, calibrate_threshold, certify_counts
from calibrail.conformal.bounds import mean_at_least, mean_bound
from calibrail.conformal.certificate import (
    TrimCertificate,
    certify_group_trimming,
    certify_trimming,
)
from calibrail.options import Promise, Requirement
from calibrail.report.messages import spell

ALL = np.ones(400)


def test_a_policy_that_removes_everything_is_rejected() -> None:
    everything = certify_trimming(
        ClassCounts(200, 200, 200, 200), np.zeros(400), Requirement(min_coverage=0.9, min_kept=0.7)
    )
    assert everything.verdict == "rejected"
    assert spell(everything.reason) == (
        "With 95% confidence it keeps at most 1.3% of an answer's supported sentences on average, "
        "and 70% is required."
    )


def test_without_a_share_to_keep_nothing_is_certified() -> None:
    certificate = certify_trimming(
        ClassCounts(200, 200, 0, 200), ALL, Requirement(min_coverage=0.9)
    )
    assert certificate.verdict == "inconclusive"
    assert "--min-kept" in spell(certificate.reason)
    assert dict(certificate.needed) == {"hallucinated": 0, "faithful": 0, "answers": None}


@given(
    caught=st.integers(0, 60),
    alarms=st.integers(0, 60),
    limit=st.sampled_from([0.05, 0.3, 0.9]),
)
def test_where_everything_is_kept_it_is_certified_as_flags_are(
    caught: int, alarms: int, limit: float
) -> None:
    counts, required = (
        ClassCounts(caught, 60, alarms, 60),
        Requirement(max_fpr=limit, min_coverage=0.8),
    )
    flags = certify_counts(counts, required)
    trims = certify_trimming(
        counts, ALL, Requirement(max_fpr=limit, min_coverage=0.8, min_kept=0.5)
    )
    assert (flags.verdict == "certified") == (trims.verdict == "certified")
    # Three requirements share the error of a rejection, so that it needs as much at least.
    assert trims.verdict != "rejected" or flags.verdict == "rejected"
    assert (trims.coverage, trims.fpr) == (flags.coverage, flags.fpr)


def test_every_requirement_has_to_be_shown() -> None:
    kept = np.tile([1.0, 0.75], 200)
    shown = ClassCounts(190, 200, 10, 200), Requirement(max_fpr=0.2, min_coverage=0.8, min_kept=0.8)
    assert certify_trimming(shown[0], kept, shown[1]).verdict == "certified"
    for counts, values in (
        (ClassCounts(165, 200, 10, 200), kept),
        (ClassCounts(190, 200, 35, 200), kept),
        (ClassCounts(190, 200, 10, 200), kept[:12]),
    ):
        certificate = certify_trimming(counts, values, shown[1])
        assert certificate.verdict == "inconclusive"
        assert sum(bool(number) for number in certificate.needed.values()) == 1


def test_what_settles_it_settles_it() -> None:
    kept, required = np.tile([1.0, 0.5, 1.0], 8), Requirement(min_coverage=0.5, min_kept=0.75)
    counts = ClassCounts(95, 100, 5, 100)
    certificate = certify_trimming(counts, kept, required)
    more = certificate.needed["answers"]
    assert certificate.verdict == "inconclusive" and more
    assert certify_trimming(counts, np.resize(kept, len(kept) + more), required).verdict == (
        "certified"
    )


def test_a_pac_threshold_frees_by_construction_and_its_error_counts() -> None:
    calibration = calibrate_threshold(np.arange(100.0), Promise(0.1, "pac", 0.02))
    required = Requirement(min_coverage=0.9, min_kept=0.7)
    kept = np.tile([1.0, 0.75], 100)
    certificate = certify_trimming(ClassCounts(20, 22, 5, 20), kept, required, calibration)
    assert certificate.verdict == "certified"
    assert certificate.coverage_at_least == 0.9
    assert certificate.confidence == 0.95
    assert certificate.kept_at_least == mean_at_least(kept, 0.97)
    # The construction proves less than what the test part refutes.
    refuted = certify_trimming(ClassCounts(2, 22, 5, 20), kept, required, calibration)
    assert refuted.verdict == "rejected"


def test_groups_share_the_error() -> None:
    kept = np.tile([1.0, 0.75], 100)
    groups = {"a": (ClassCounts(95, 100, 5, 100), kept), "b": (ClassCounts(50, 100, 5, 100), kept)}
    verdicts = certify_group_trimming(groups, Requirement(min_coverage=0.8, min_kept=0.7))
    assert [item.certificate.verdict for item in verdicts.values()] == ["certified", "rejected"]
    certificate = verdicts["a"].certificate
    assert isinstance(certificate, TrimCertificate)
    assert certificate.kept == mean_bound(kept, 0.975)
    assert verdicts["b"].p_undercovered < 1e-6 < verdicts["a"].p_undercovered


def test_a_certificate_comes_back_from_its_dictionary() -> None:
    certificate = certify_trimming(
        ClassCounts(95, 100, 5, 100), ALL, Requirement(min_coverage=0.8, min_kept=0.7)
    )
    assert TrimCertificate.from_dict(certificate.to_dict()) == certificate
