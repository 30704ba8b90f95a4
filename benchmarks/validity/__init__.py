"""Do the promises hold when the data are known?

A Monte-Carlo harness that anyone may run. Each simulation repeats one promise many times on scores
of a known distribution and counts how often it failed. Where the probability of a failure is known
exactly (continuous scores), the count must lie within two-sided binomial limits around it, and the
probability within the promise. With ties coverage may only grow, so the count must not lie above.
The limits follow from the number of runs and of checks, never from a chosen tolerance.

`benchmarks.validity.from_files` simulates the same promises the way a user gets them.

>>> checks = simulate(runs=200, sizes=(30,), alphas=(0.1,), kinds=("continuous",), seed=1)
>>> failures(checks)
()
"""

from .check import KINDS as KINDS
from .check import Check as Check
from .check import Kind as Kind
from .check import MeanCheck as MeanCheck
from .check import Observation as Observation
from .check import failures as failures
from .grid import ALPHAS as ALPHAS
from .grid import SIZES as SIZES
from .grid import observe as observe
from .grid import simulate as simulate
