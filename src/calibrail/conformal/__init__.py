"""Which threshold keeps which promise: numpy and scipy only, no text, no models."""

from calibrail.conformal.attainable import attainable_coverages
from calibrail.conformal.band import coverage_band
from calibrail.conformal.bound import Bound, clopper_pearson, exact_bound
from calibrail.conformal.certificate import Certificate, certify_counts, joint_certificate
from calibrail.conformal.pvalues import p_values
from calibrail.conformal.rank import GUARANTEES, Guarantee, minimum_n, rank
from calibrail.conformal.threshold import Calibration, Undefined, calibrate, flags

__all__ = [
    "GUARANTEES",
    "Bound",
    "Calibration",
    "Certificate",
    "Guarantee",
    "Undefined",
    "attainable_coverages",
    "calibrate",
    "certify_counts",
    "clopper_pearson",
    "coverage_band",
    "exact_bound",
    "flags",
    "joint_certificate",
    "minimum_n",
    "p_values",
    "rank",
]
