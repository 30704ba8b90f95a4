"""How are arrays called in signatures?"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Labels (1 = hallucinated, 0 = faithful), or parts of a split.
Codes = NDArray[np.int8]
Mask = NDArray[np.bool_]
