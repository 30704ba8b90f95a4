"""Certificates from seven numbers: four counts, the coverage required, the FPR allowed, a level."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrail.conformal import (
    Calibration,
    Certificate,
    ClassCounts,
    FlipTolerance,
    GroupVerdict,
    certify_counts,
    certify_groups,
    flip_tolerance,
    joint_certificate,
)
from calibrail.options import Requirement


def certify(*numbers: Any) -> Certificate:
    *counts, required, limit, level = numbers
    return certify_counts(ClassCounts(*counts), Requirement(limit, required, level))


def tolerance(*numbers: Any) -> FlipTolerance | None:
    *counts, required, limit, level = numbers
    return flip_tolerance(ClassCounts(*counts), Requirement(limit, required, level))


def certify_each(
    counts: Mapping[str, ClassCounts], required: float, limit: float | None, level: float
) -> dict[str, GroupVerdict]:
    return certify_groups(counts, Requirement(limit, required, level))


def certify_joint(calibration: Calibration, *numbers: Any) -> Certificate:
    """The coverage required is left out."""
    *counts, limit, level = numbers
    return joint_certificate(calibration, ClassCounts(*counts), Requirement(limit, None, level))
