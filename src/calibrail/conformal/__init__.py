"""Which threshold keeps which promise: numpy and scipy only, no text, no models."""

from calibrail.conformal.bound import Bound, Counts, clopper_pearson, exact_bound
from calibrail.conformal.certificate import (
    Certificate,
    GroupVerdict,
    certify_counts,
    certify_groups,
    holm,
    joint_certificate,
)
from calibrail.conformal.clusters import ClusteredCalibration, calibrate_clusters
from calibrail.conformal.discoveries import Discoveries, discoveries
from calibrail.conformal.groups import GroupedCalibration, calibrate_groups
from calibrail.conformal.label_noise import FlipTolerance, flip_tolerance
from calibrail.conformal.planning import Assumption, Plan, plan
from calibrail.conformal.power import VerdictProbabilities
from calibrail.conformal.pvalues import p_values
from calibrail.conformal.rank import GUARANTEES, minimum_n, rank
from calibrail.conformal.risk_spec import Risk, parse_risk
from calibrail.conformal.risks import CandidateSearch, RiskControl, control_risks
from calibrail.conformal.rule import DECISIONS, Rule, fit_rule, least_withheld, three_way
from calibrail.conformal.selection import (
    Selection,
    conformal_selection,
    minimum_n_for_selection,
)
from calibrail.conformal.shift import WeightedCalibration, calibrate_weighted
from calibrail.conformal.simultaneous import (
    SimultaneousBand,
    attainable_coverages,
    simultaneous_band,
)
from calibrail.conformal.threshold import Calibration, calibrate_threshold, coverage_band, flags
from calibrail.settings.promise import Guarantee, Promise, Undefined

__all__ = [
    "DECISIONS",
    "GUARANTEES",
    "Assumption",
    "Bound",
    "Calibration",
    "CandidateSearch",
    "Certificate",
    "ClusteredCalibration",
    "Counts",
    "Discoveries",
    "FlipTolerance",
    "GroupVerdict",
    "GroupedCalibration",
    "Guarantee",
    "Plan",
    "Promise",
    "Risk",
    "RiskControl",
    "Rule",
    "Selection",
    "SimultaneousBand",
    "Undefined",
    "VerdictProbabilities",
    "WeightedCalibration",
    "attainable_coverages",
    "calibrate_clusters",
    "calibrate_groups",
    "calibrate_threshold",
    "calibrate_weighted",
    "certify_counts",
    "certify_groups",
    "clopper_pearson",
    "conformal_selection",
    "control_risks",
    "coverage_band",
    "discoveries",
    "exact_bound",
    "fit_rule",
    "flags",
    "flip_tolerance",
    "holm",
    "joint_certificate",
    "least_withheld",
    "minimum_n",
    "minimum_n_for_selection",
    "p_values",
    "parse_risk",
    "plan",
    "rank",
    "simultaneous_band",
    "three_way",
]
