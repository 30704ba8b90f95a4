"""How likely does a hypothesis follow from a premise, and from which part of it?"""

from collections.abc import Sequence
from functools import partial
from itertools import permutations
from typing import Any, Final, NamedTuple

import numpy as np

from calibrail.errors import ModelError
from calibrail.models import nli_heads as heads
from calibrail.models.pairs import PairModel
from calibrail.models.windows import cut

#: What a model is asked when it is opened: a premise, and what follows from it, what contradicts
#: it and what it leaves open.
SELF_TEST: Final = (
    ("Two dogs are running across a field.", "Two animals are running."),
    ("Two dogs are running across a field.", "The dogs are sleeping."),
    ("Two dogs are running across a field.", "The dogs belong to a farmer."),
)
#: By how much another order of the labels must suit the self-test better before a model is refused:
#: the swapped labels of a trained model gain about 1.5, an untrained model says the same of all.
SWAPPED: Final = 0.5


class Judgement(NamedTuple):
    """What a model says of one hypothesis and its premise.

    Attributes
    ----------
    entailment : float
        Highest probability, over the windows of the premise, that the hypothesis follows.
    contradiction : float or None
        Highest probability that the premise contradicts it; None where the model has no such
        class.
    start, end : int
        Characters of the premise that the window of the highest entailment covers.
    contradiction_start, contradiction_end : int
        The same for the highest contradiction; 0 where the model has no such class.
    n_windows : int
        Windows in which the premise was read.
    """

    entailment: float
    contradiction: float | None
    start: int
    end: int
    contradiction_start: int
    contradiction_end: int
    n_windows: int


class EntailmentModel(PairModel):
    """A model of natural language inference: premise (long) and hypothesis (short).

    Scores of one process share one: ``shared`` in ``models/store.py``.

    Reads sequence classifiers with named classes, vectara/hallucination_evaluation_model (HHEM)
    and MiniCheck-Flan-T5. At the first use three pairs with known answers are judged.

    Parameters
    ----------
    model, revision, dtype, window
        See ``PairModel``.
    """

    def describe(self) -> dict[str, Any]:
        """Return the kind of head and the meaning of its outputs in their order."""
        kind = heads.find_kind(self.place, self.model)
        return {"head": kind.name, "labels": list(kind.labels)}

    def file_digests(self) -> dict[str, str]:
        """Return the digests of all files that are read, a tokenizer's elsewhere included."""
        found, kind = super().file_digests(), heads.find_kind(self.place, self.model)
        if kind.name == "hhem" and (tokenizer := heads.hhem_tokenizer(self.place)) != self.place:
            found["tokenizer_sha256"] = tokenizer.tokenizer_digest()
        return found

    def judge(self, pairs: Sequence[tuple[str, str]]) -> list[Judgement]:
        """Return what the model says of each (premise, hypothesis).

        Raises
        ------
        ModelError
            If the model cannot be loaded, its labels have no meaning, or they look swapped.
        """
        judgements = []
        for best in self.results(pairs):
            values, spans, n = (*best.values, None), (*best.spans, (0, 0)), best.n_windows
            judgements.append(Judgement(best.values[0], values[1], *spans[0], *spans[1], n))
        return judgements

    def open(self) -> heads.EntailmentHead:
        """Load the model and ask it the three pairs."""
        kind = heads.find_kind(self.place, self.model)
        make = partial(kind.head, labels=kind.labels, prompt=kind.prompt)
        head = self.open_head(kind.architecture, make)
        self._self_test(head)
        return head

    def _self_test(self, head: heads.EntailmentHead) -> None:
        """Judge three pairs with known answers.

        The labels are taken to be swapped where giving them another order would suit the answers
        clearly better.
        """
        premises, hypotheses = zip(*SELF_TEST, strict=True)
        windows = [
            cut(tokens, self.length, None)[0][0] for tokens in head.read(premises, hypotheses)
        ]
        probabilities = head.probabilities(windows)
        if not np.isfinite(probabilities).all() or not np.allclose(probabilities.sum(axis=1), 1.0):
            raise ModelError(
                f"{self.model} gives no probabilities on a test of three pairs: "
                f"{probabilities.tolist()}; its weights are broken, or the precision too low: try "
                'dtype="float32"'
            )
        if isinstance(head, heads.MiniCheck) and head.answered(windows).min() < 0.5:
            raise ModelError(
                f"{self.model} does not answer 0 or 1 to MiniCheck's prompt, so it is no MiniCheck "
                "model"
            )
        answers = [heads.ENTAILMENT, heads.CONTRADICTION, heads.NEUTRAL]
        if heads.NEUTRAL not in head.labels:
            # Two classes: what is left open tells them apart less clearly than a contradiction.
            answers = sorted(head.labels, key=lambda label: label != heads.ENTAILMENT)
        expected = [head.labels.index(answer) for answer in answers]

        def suits(order: Sequence[int]) -> float:
            return float(probabilities[range(len(order)), order].sum())

        best = max(permutations(expected), key=suits)
        if suits(best) > suits(expected) + SWAPPED:
            says = "; ".join(
                f"{hypothesis!r}: "
                + ", ".join(f"{name} {p:.2f}" for name, p in zip(head.labels, row, strict=True))
                for hypothesis, row in zip(hypotheses, probabilities, strict=True)
            )
            raise ModelError(
                f"{self.model}: its labels look swapped. Of the premise {premises[0]!r} it says: "
                f"{says}. Correct id2label in config.json of a local copy, and give that folder as "
                "model="
            )
