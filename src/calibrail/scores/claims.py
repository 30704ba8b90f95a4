"""Which of the answer's claims does the context entail?"""

from collections.abc import Mapping

import numpy as np

from calibrail.data.example import Example
from calibrail.errors import InputError
from calibrail.scores.base import JSON, Valued
from calibrail.scores.entailment import Entailing, Pair, best_support, grid, rows
from calibrail.scores.evidence import SPOKEN, judged
from calibrail.scores.neural import filled
from calibrail.scores.parameters import is_number
from calibrail.text.claims import Claim, claims, claims_version
from calibrail.text.sentences import Sentence


class Claims(Entailing):
    """1 - share of the response's claims that some chunk entails. In [0, 1].

    Source: "Retrieval is not grounding". A statement that the sources do not hold the answer is no
    claim that they could support; a response that claims nothing is undefined, not grounded.

    Parameters
    ----------
    threshold : float
        A claim is entailed from this probability on; in (0, 1).
    model, revision, dtype, window
        See ``Entailing``.
    """

    threshold: float = SPOKEN

    name = "claims"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_number(self.threshold):
            raise InputError(f"threshold must be a number in (0, 1); got {self.threshold!r}")
        if not 0.0 < self.threshold < 1.0:
            raise InputError(f"threshold must lie in (0, 1); got {self.threshold!r}")
        self.threshold = float(self.threshold)

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the model's fingerprint and the version of the claim splitting."""
        return {**self.nli.fingerprint(), "claims": claims_version()}

    def inputs(self, example: Example) -> list[Pair]:
        """Return every chunk with every claim."""
        return grid(filled(example.contexts), [_stated(claim) for claim in _made(example)])

    def value(self, example: Example) -> Valued | str:
        """Return one minus the share of claims entailed."""
        made = _made(example)
        if not made:
            return "the response makes no claim"
        pairs = self.inputs(example)
        # A count jumps where rounding carries a claim over the threshold.
        self.nli.settle(
            pair
            for pair, judgement in zip(pairs, self.nli.judge(pairs), strict=True)
            if abs(judgement.entailment - self.threshold) <= self.tolerance
        )
        table = rows(self.nli.judge(pairs), len(made))
        share = float(np.mean(best_support(table) >= self.threshold))
        pieces = [Sentence(claim.text, claim.start, claim.end) for claim in made]
        items = judged(pieces, table, example.contexts, self.threshold)
        return 1.0 - share, {"kind": "claims", "items": items}


def _made(example: Example) -> list[Claim]:
    return [claim for claim in claims(example.response) if not claim.abstains]


def _stated(claim: Claim) -> str:
    return f"{claim.lead} {claim.text}" if claim.lead else claim.text
