"""Entailment models."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import ModelError
from calibrail.models.loading import Architecture, Location, locate_tokenizer
from calibrail.models.networks import AnyNetwork
from calibrail.models.window_models import PairHead, PairModel
from calibrail.models.windows import Window, cut

ENTAILMENT: Final = "entailment"
NEUTRAL: Final = "neutral"
CONTRADICTION: Final = "contradiction"
NOT_ENTAILMENT: Final = "not_entailment"

#: What published models call the classes.
_MEANINGS: Final = {
    ENTAILMENT: "entailment entail entails entailed consistent factually_consistent supported "
    "supports support faithful grounded factual",
    NEUTRAL: "neutral nei not_enough_info unknown unrelated",
    CONTRADICTION: "contradiction contradict contradicts contradicted contradictory refutes "
    "refuted",
    NOT_ENTAILMENT: "not_entailment not_entailed non_entailment not_entail inconsistent "
    "not_consistent factually_inconsistent hallucinated hallucination unsupported not_supported "
    "unfaithful not_faithful ungrounded not_grounded not_factual",
}
_NAMES: Final = {name: label for label, names in _MEANINGS.items() for name in names.split()}
#: What a model may know besides entailment.
_OTHERS: Final = ({NEUTRAL, CONTRADICTION}, {NOT_ENTAILMENT}, {CONTRADICTION})

HHEM_PROMPT: Final = (
    "<pad> Determine if the hypothesis is true given the premise?\n\n"
    "Premise: {long}\n\nHypothesis: {short}"
)
#: The figures of flan-t5-base; the folder's own config.json may state others.
_FLAN_T5_BASE: Final = {
    "vocab_size": 32128,
    "d_model": 768,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 12,
    "num_decoder_layers": 12,
    "num_heads": 12,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "gated-gelu",
}
MINICHECK_PROMPT: Final = "predict: {long}</s>{short}"

#: What models with two outputs say, in their order.
TWO_LABELS: Final = (NOT_ENTAILMENT, ENTAILMENT)
#: Labels that a judgement holds, in its order.
JUDGED: Final = (ENTAILMENT, CONTRADICTION)


class EntailmentHead(PairHead):
    """An opened entailment model: a sequence classifier with named classes.

    Parameters
    ----------
    network : Network or GraphNetwork
        The model.
    labels : tuple of str
        Meaning of each of its outputs, in their order.
    prompt : str
        See ``PairHead``.
    """

    def __init__(self, network: AnyNetwork, labels: tuple[str, ...], prompt: str = "") -> None:
        super().__init__(network, prompt)
        self.labels = labels
        self._judged = [labels.index(label) for label in JUDGED if label in labels]

    def probabilities(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the probability of each label, shape (windows, labels)."""
        return _softmax(self.logits(windows))

    def values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the probabilities of entailment and, where it is a class, of contradiction."""
        return self.probabilities(windows)[:, self._judged]


class Hhem(EntailmentHead):
    """vectara/hallucination_evaluation_model, without the code that its repository brings.

    A token classifier on the encoder of flan-t5-base; the first position's second class is
    consistency. The published weights carry the prefix ``t5.``.
    """

    @staticmethod
    def forward(module: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the logits of inconsistent and consistent: those of the first position."""
        return (module(**inputs).logits[:, 0],)


class MiniCheck(EntailmentHead):
    """lytang/MiniCheck-Flan-T5-Large: one decoder step, the token of "1" against that of "0".

    Tang, Laban and Durrett, "MiniCheck" (EMNLP 2024), and its published inference code.
    """

    def __init__(self, network: AnyNetwork, labels: tuple[str, ...], prompt: str) -> None:
        super().__init__(network, labels, prompt)
        # The vocabulary of flan-t5 has no word "0": its first token is the bare word boundary,
        # which is what the published code reads as "0".
        zero, one = (
            network.tokenizer(answer, add_special_tokens=False)["input_ids"][:1]
            for answer in ("0", "1")
        )
        unknown = [network.tokenizer.unk_token_id]
        if not zero or not one or zero == one or unknown in (zero, one):
            raise ModelError(
                f'{network.model}: its tokenizer does not begin the answers "0" and "1" with '
                "tokens of their own, as a MiniCheck model's does"
            )
        self._answers = zero + one

    def logits(self, windows: Sequence[Window]) -> Any:
        """Return those of "0" (unsupported) and "1" (supported)."""
        return super().logits(windows)[:, self._answers]

    def answered(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return how likely the answer is one of the two at all, shape (windows,)."""
        either = _softmax(super().logits(windows))[:, self._answers]
        return np.asarray(either.sum(axis=1))

    @staticmethod
    def forward(module: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the logits of all tokens for the first one of the answer."""
        import torch

        begin = module.config.decoder_start_token_id or 0
        start = torch.full_like(inputs["input_ids"][:, :1], begin)
        return (module(**inputs, decoder_input_ids=start, use_cache=False).logits[:, 0],)


@dataclass(frozen=True, slots=True)
class HeadKind:
    """What a model's files say it is.

    Attributes
    ----------
    name : {"classifier", "hhem", "minicheck"}
        How it is read.
    labels : tuple of str
        Meaning of each of its outputs, in their order.
    head : type of EntailmentHead
        What reads it.
    architecture : Architecture
        As what it is opened.
    prompt : str
        See ``PairHead``.
    """

    name: str
    labels: tuple[str, ...]
    head: type[EntailmentHead]
    architecture: Architecture
    prompt: str = ""


def find_kind(place: Location, model: str) -> HeadKind:
    """Tell from a model's files what kind of entailment model it is.

    Raises
    ------
    ModelError
        If it is none, or its labels have no names that say what they mean.
    """
    stated = place.config("architectures")
    architecture = str(stated[0]) if isinstance(stated, list) and stated else ""
    if architecture.startswith("HHEM"):
        return _hhem(place)
    if architecture == "T5ForConditionalGeneration":
        opened_as = Architecture(architecture, "a MiniCheck model")
        return HeadKind("minicheck", TWO_LABELS, MiniCheck, opened_as, MINICHECK_PROMPT)
    labels = label_order(place.config("id2label"), model)
    opened_as = Architecture("AutoModelForSequenceClassification", "an entailment model")
    return HeadKind("classifier", labels, EntailmentHead, opened_as)


def _hhem(place: Location) -> HeadKind:
    """Return how a hallucination evaluation model is read: with its own figures and prompt."""
    stated = {key: place.config(key) for key in _FLAN_T5_BASE}
    figures = {**_FLAN_T5_BASE, **{key: v for key, v in stated.items() if v is not None}}
    architecture = Architecture(
        "T5ForTokenClassification",
        "a hallucination evaluation model",
        tokenizer=("T5Tokenizer", hhem_tokenizer(place).folder),
        strict=True,
        configuration=("T5Config", {**figures, "num_labels": 2, "tie_word_embeddings": False}),
        options={"key_mapping": {r"^t5\.": ""}},
    )
    prompt = place.config("prompt")
    if isinstance(prompt, str) and prompt.count("{text1}") == prompt.count("{text2}") == 1:
        prompt = prompt.replace("{text1}", "{long}").replace("{text2}", "{short}")
    else:
        prompt = HHEM_PROMPT
    return HeadKind("hhem", TWO_LABELS, Hhem, architecture, prompt)


def hhem_tokenizer(place: Location) -> Location:
    """Return where its tokenizer lies: beside the weights, or with the model it was made from."""
    if place.has("tokenizer.json"):
        return place
    foundation = place.config("foundation")
    return locate_tokenizer(foundation if isinstance(foundation, str) else "google/flan-t5-base")


def meaning(name: str) -> str:
    """Return which class a published model means by a label; empty where that is not known.

    >>> meaning("Not-Supported"), meaning("LABEL_1")
    ('not_entailment', '')
    """
    return _NAMES.get(re.sub(r"[\W_]+", "_", name.strip().lower()), "")


def label_order(id2label: Any, model: str) -> tuple[str, ...]:
    """Return what each output of a classifier means, from the names that its config gives.

    Raises
    ------
    ModelError
        If the names do not say which output is entailment, and what the others are.
    """
    names = id2label if isinstance(id2label, dict) else {}
    in_order = [str(names.get(str(index))) for index in range(len(names))]
    labels = tuple(map(meaning, in_order))
    known = [{ENTAILMENT, *others} for others in _OTHERS]
    if len(set(labels)) != len(labels) or set(labels) not in known:
        listed = ", ".join(f"{key}: {value}" for key, value in names.items()) or "none"
        raise ModelError(
            f"{model}: its labels ({listed}) do not say which output is entailment. An entailment "
            "model has the labels entailment, neutral and contradiction, or entailment and "
            "not_entailment. If you know their order from its model card, write it into "
            'config.json of a local copy, e.g. "id2label": {"0": "contradiction", '
            '"1": "neutral", "2": "entailment"}, and give that folder as model='
        )
    return labels


def _softmax(logits: Any) -> NDArray[np.float64]:
    import torch

    return np.asarray(torch.softmax(logits.double(), dim=-1).cpu())


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

    Scores of one process share one: ``shared`` in ``models/batching.py``.

    Reads sequence classifiers with named classes, vectara/hallucination_evaluation_model (HHEM)
    and MiniCheck-Flan-T5. At the first use three pairs with known answers are judged.

    Parameters
    ----------
    model, revision, dtype, window
        See ``PairModel``.
    """

    def describe(self) -> dict[str, Any]:
        """Return the kind of head and the meaning of its outputs in their order."""
        kind = find_kind(self.place, self.model)
        return {"head": kind.name, "labels": list(kind.labels)}

    def file_digests(self) -> dict[str, str]:
        """Return the digests of all files that are read, a tokenizer's elsewhere included."""
        found, kind = super().file_digests(), find_kind(self.place, self.model)
        if kind.name == "hhem" and (tokenizer := hhem_tokenizer(self.place)) != self.place:
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

    def open(self) -> EntailmentHead:
        """Load the model and ask it the three pairs."""
        kind = find_kind(self.place, self.model)
        make = partial(kind.head, labels=kind.labels, prompt=kind.prompt)
        head = self.open_head(kind.architecture, make)
        self._self_test(head)
        return head

    def _self_test(self, head: EntailmentHead) -> None:
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
        if isinstance(head, MiniCheck) and head.answered(windows).min() < 0.5:
            raise ModelError(
                f"{self.model} does not answer 0 or 1 to MiniCheck's prompt, so it is no MiniCheck "
                "model"
            )
        answers = [ENTAILMENT, CONTRADICTION, NEUTRAL]
        if NEUTRAL not in head.labels:
            # Two classes: what is left open tells them apart less clearly than a contradiction.
            answers = sorted(head.labels, key=lambda label: label != ENTAILMENT)
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
