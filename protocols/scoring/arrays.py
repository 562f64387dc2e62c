"""The arrays that scores are computed in."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
"""An array of 64-bit floating point numbers."""

Flags: TypeAlias = npt.NDArray[np.bool_]
"""An array of truth values."""

Places: TypeAlias = npt.NDArray[np.int64]
"""An array of indices."""
