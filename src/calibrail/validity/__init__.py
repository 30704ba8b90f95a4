"""Do the promises hold when the data are known?

A Monte-Carlo harness that anyone may run. Each simulation repeats one promise many times on scores
of a known distribution and counts how often it failed. Where the probability of a failure is known
exactly (continuous scores), the count must lie within two-sided binomial limits around it, and the
probability within the promise. With ties coverage may only grow, so the count must not lie above.
The limits follow from the number of runs and of checks, never from a chosen tolerance.

`calibrail.validity.from_files` simulates the same promises the way a user gets them.

>>> checks = simulate(runs=200, sizes=(30,), alphas=(0.1,), kinds=("continuous",), seed=1)
>>> failures(checks)
()
"""

from calibrail.validity.check import Check as Check
from calibrail.validity.check import MeanCheck as MeanCheck
from calibrail.validity.check import Observation as Observation
from calibrail.validity.check import failures as failures
from calibrail.validity.distributions import KINDS as KINDS
from calibrail.validity.distributions import Kind as Kind
from calibrail.validity.grid import ALPHAS as ALPHAS
from calibrail.validity.grid import SIZES as SIZES
from calibrail.validity.grid import observe as observe
from calibrail.validity.grid import simulate as simulate
