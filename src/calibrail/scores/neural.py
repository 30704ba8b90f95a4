"""What do all scores on embeddings share: an encoder, its parameters, angles between vectors?"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.models.encoder import load_encoder
from calibrail.models.location import DEFAULT_MODEL
from calibrail.scores.detector import ModelScore

#: Two computations of one value in different batches differ by about 1e-8 in float32; angles and
#: ratios of angles magnify that.
NEURAL_TOLERANCE: Final = 1e-6


class Embedding(ModelScore):
    """Base of the scores that embed texts.

    Parameters
    ----------
    model : str
        Sentence encoder: hub name or folder. The default is embedded.
    revision : str or None
        Revision of a hub model.
    prompt : str
        Put before every text.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    """

    model: str = DEFAULT_MODEL
    revision: str | None = None
    prompt: str = ""
    dtype: str = "float32"

    tolerance = NEURAL_TOLERANCE

    def __post_init__(self) -> None:
        self.encoder = load_encoder(self.model, self.revision, self.prompt, self.dtype)
        self.model = self.encoder.model

    @property
    def models(self) -> tuple[Any, ...]:
        """The encoder."""
        return (self.encoder,)


def cosines(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the cosines between rows of unit vectors, shape (n,), in [-1, 1]."""
    products = np.einsum("ij,ij->i", left, right)
    # A vector has cosine 1 with itself, which rounding may miss by a digit: enough to make an
    # angle of 1e-8 out of none where an answer repeats its context.
    products[(left == right).all(axis=1)] = 1.0
    result: NDArray[np.float64] = np.clip(products, -1.0, 1.0)
    return result


def angles(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the angles in radians between rows of unit vectors, shape (n,), in [0, pi]."""
    result: NDArray[np.float64] = np.arccos(cosines(left, right))
    return result


def filled(chunks: Sequence[str]) -> list[str]:
    """Return the chunks that hold anything."""
    return [chunk for chunk in chunks if chunk.strip()]


def joined(example: Example) -> str:
    """Return the chunks that hold anything as one text, joined by newlines."""
    return "\n".join(filled(example.contexts))
