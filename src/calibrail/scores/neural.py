"""What do all scores on embeddings share: an encoder, its parameters, its fingerprint?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from calibrail.data.example import Example
from calibrail.models.encoder import load_encoder
from calibrail.models.location import DEFAULT_MODEL
from calibrail.scores.base import JSON, SharedModel, missing

#: Two computations of one value in different batches differ by about 1e-8 in float32; angles and
#: ratios of angles magnify that.
NEURAL_TOLERANCE = 1e-6


class Embedding:
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

    name = ""
    requires: tuple[str, ...] = ()
    tolerance = NEURAL_TOLERANCE

    def __init__(
        self,
        *,
        model: str = DEFAULT_MODEL,
        revision: str | None = None,
        prompt: str = "",
        dtype: str = "float32",
    ) -> None:
        self.encoder = load_encoder(model, revision, prompt, dtype)

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""
        encoder = self.encoder
        return {
            **self.own_params(),
            "model": encoder.model,
            "revision": encoder.revision,
            "prompt": encoder.prompt,
            "dtype": encoder.dtype,
        }

    def own_params(self) -> Mapping[str, JSON]:
        """Return the parameters besides the encoder's."""
        return {}

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the encoder's fingerprint."""
        return self.encoder.fingerprint()

    @property
    def models(self) -> tuple[SharedModel, ...]:
        """The encoder."""
        return (self.encoder,)

    def forget(self) -> None:
        """Drop cached vectors, so that the next example is embedded by itself."""
        self.encoder.forget()

    def usable(
        self, examples: Sequence[Example]
    ) -> tuple[NDArray[np.float64], list[int], dict[int, str]]:
        """Return a NaN array, the positions that can be scored, and reasons for the others."""
        reasons = {}
        positions = []
        for index, example in enumerate(examples):
            why = missing(example, self.requires)
            if why is None:
                positions.append(index)
            else:
                reasons[index] = why
        return np.full(len(examples), np.nan), positions, reasons


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
