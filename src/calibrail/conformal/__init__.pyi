# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.conformal.bounds import Bound as Bound
from calibrail.conformal.bounds import ClassCounts as ClassCounts
from calibrail.conformal.bounds import attainable_coverages as attainable_coverages
from calibrail.conformal.bounds import clopper_pearson as clopper_pearson
from calibrail.conformal.bounds import coverage_band as coverage_band
from calibrail.conformal.bounds import exact_bound as exact_bound
from calibrail.conformal.certificate import Certificate as Certificate
from calibrail.conformal.certificate import FlipTolerance as FlipTolerance
from calibrail.conformal.certificate import GroupVerdict as GroupVerdict
from calibrail.conformal.certificate import certify_counts as certify_counts
from calibrail.conformal.certificate import certify_groups as certify_groups
from calibrail.conformal.certificate import flip_tolerance as flip_tolerance
from calibrail.conformal.certificate import holm as holm
from calibrail.conformal.certificate import joint_certificate as joint_certificate
from calibrail.conformal.false_discovery import Discoveries as Discoveries
from calibrail.conformal.false_discovery import Selection as Selection
from calibrail.conformal.false_discovery import conformal_selection as conformal_selection
from calibrail.conformal.false_discovery import discoveries as discoveries
from calibrail.conformal.false_discovery import labelled_share as labelled_share
from calibrail.conformal.false_discovery import minimum_n_for_selection as minimum_n_for_selection
from calibrail.conformal.false_discovery import storey_share as storey_share
from calibrail.conformal.group_thresholds import ClusteredCalibration as ClusteredCalibration
from calibrail.conformal.group_thresholds import GroupedCalibration as GroupedCalibration
from calibrail.conformal.group_thresholds import calibrate_clusters as calibrate_clusters
from calibrail.conformal.group_thresholds import calibrate_groups as calibrate_groups
from calibrail.conformal.overlapping_groups import OverlappingCalibration as OverlappingCalibration
from calibrail.conformal.overlapping_groups import calibrate_overlapping as calibrate_overlapping
from calibrail.conformal.power import Assumption as Assumption
from calibrail.conformal.power import Plan as Plan
from calibrail.conformal.power import VerdictProbabilities as VerdictProbabilities
from calibrail.conformal.power import plan as plan
from calibrail.conformal.risk_control import CandidateSearch as CandidateSearch
from calibrail.conformal.risk_control import Risk as Risk
from calibrail.conformal.risk_control import RiskControl as RiskControl
from calibrail.conformal.risk_control import control_risks as control_risks
from calibrail.conformal.risk_control import parse_risk as parse_risk
from calibrail.conformal.sequential.audited_calibration import (
    labelling_probability as labelling_probability,
)
from calibrail.conformal.sequential.betting import confidence_sequence as confidence_sequence
from calibrail.conformal.sequential.betting import estimated_labels as estimated_labels
from calibrail.conformal.sequential.betting import log_wealth as log_wealth
from calibrail.conformal.sequential.forecast import LabelsLeft as LabelsLeft
from calibrail.conformal.sequential.forecast import LabelsToExpect as LabelsToExpect
from calibrail.conformal.sequential.forecast import SequentialPlan as SequentialPlan
from calibrail.conformal.sequential.forecast import labels_left as labels_left
from calibrail.conformal.sequential.forecast import plan_sequential as plan_sequential
from calibrail.conformal.sequential.sequential_test import (
    SequentialCertificate as SequentialCertificate,
)
from calibrail.conformal.sequential.sequential_test import SequentialTest as SequentialTest
from calibrail.conformal.sequential.sequential_test import UnsureTest as UnsureTest
from calibrail.conformal.threshold import GUARANTEES as GUARANTEES
from calibrail.conformal.threshold import Calibration as Calibration
from calibrail.conformal.threshold import WeightedCalibration as WeightedCalibration
from calibrail.conformal.threshold import calibrate_threshold as calibrate_threshold
from calibrail.conformal.threshold import calibrate_weighted as calibrate_weighted
from calibrail.conformal.threshold import flags as flags
from calibrail.conformal.threshold import minimum_n as minimum_n
from calibrail.conformal.threshold import p_values as p_values
from calibrail.conformal.threshold import rank as rank
from calibrail.conformal.threshold_rule import DECISIONS as DECISIONS
from calibrail.conformal.threshold_rule import Rule as Rule
from calibrail.conformal.threshold_rule import fit_rule as fit_rule
from calibrail.conformal.threshold_rule import least_withheld as least_withheld
from calibrail.conformal.threshold_rule import three_way as three_way
from calibrail.options.guarantee import Guarantee as Guarantee
from calibrail.options.guarantee import Promise as Promise
from calibrail.options.guarantee import Undefined as Undefined
