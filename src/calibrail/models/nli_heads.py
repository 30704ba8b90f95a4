"""How does each published kind of entailment model say how likely a hypothesis follows?"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import ModelError
from calibrail.models.layout import Tokens, read_pairs, read_prompts
from calibrail.models.loading import Architecture, Network
from calibrail.models.location import Location, locate_tokenizer
from calibrail.models.nli_labels import CONTRADICTION, ENTAILMENT, HeadKind
from calibrail.models.windows import Window

HHEM_FOUNDATION: Final = "google/flan-t5-base"
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

#: Labels that a judgement holds, in its order.
JUDGED: Final = (ENTAILMENT, CONTRADICTION)

_CLASSIFIER: Final = Architecture("AutoModelForSequenceClassification", "an entailment model")
_MINICHECK: Final = Architecture("T5ForConditionalGeneration", "a MiniCheck model")


class EntailmentHead:
    """An opened entailment model: a sequence classifier with named classes.

    Parameters
    ----------
    network : Network
        The model.
    labels : tuple of str
        Meaning of each of its outputs, in their order.
    """

    def __init__(self, network: Network, labels: tuple[str, ...]) -> None:
        self.network, self.labels = network, labels
        self._judged = [labels.index(label) for label in JUDGED if label in labels]

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[Tokens]:
        """Tokenise premises with their hypotheses."""
        return read_pairs(self.network.tokenizer, longs, shorts, long_first=True)

    def logits(self, windows: Sequence[Window]) -> Any:
        """Return the logit of each label, shape (windows, labels)."""
        return self.network.run(windows).logits

    def probabilities(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the probability of each label, shape (windows, labels)."""
        return _softmax(self.logits(windows))

    def values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the probabilities of entailment and, where it is a class, of contradiction."""
        return self.probabilities(windows)[:, self._judged]


def open_head(
    place: Location, kind: HeadKind, model: str, load: Callable[[Architecture], Network]
) -> EntailmentHead:
    """Load an entailment model of a known kind.

    Parameters
    ----------
    place : Location
        Where it lies.
    kind : HeadKind
        What its files say it is.
    model : str
        What the user called it, for messages.
    load : callable
        Opens it as an architecture.

    Raises
    ------
    ModelError
        If it cannot be loaded as that.
    """
    if kind.name == "hhem":
        return Hhem(load(hhem_architecture(place)), kind.labels, hhem_prompt(place))
    if kind.name == "minicheck":
        return MiniCheck(load(_MINICHECK), kind.labels, model)
    return EntailmentHead(load(_CLASSIFIER), kind.labels)


class Hhem(EntailmentHead):
    """vectara/hallucination_evaluation_model, without the code that its repository brings.

    A token classifier on the encoder of flan-t5-base; the first position's second class is
    consistency. The published weights carry the prefix ``t5.``.
    """

    def __init__(self, network: Network, labels: tuple[str, ...], prompt: str) -> None:
        super().__init__(network, labels)
        self._prompt = prompt

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[Tokens]:
        """Tokenise the prompt with premise and hypothesis in it."""
        return read_prompts(self.network.tokenizer, self._prompt, longs, shorts)

    def logits(self, windows: Sequence[Window]) -> Any:
        """Return those of inconsistent and consistent."""
        return self.network.run(windows).logits[:, 0]


def hhem_architecture(place: Location) -> Architecture:
    """Return as what a hallucination evaluation model is opened, with its own figures."""
    stated = {key: place.config(key) for key in _FLAN_T5_BASE}
    figures = {**_FLAN_T5_BASE, **{key: v for key, v in stated.items() if v is not None}}
    return Architecture(
        "T5ForTokenClassification",
        "a hallucination evaluation model",
        tokenizer=("T5Tokenizer", hhem_tokenizer(place).folder),
        strict=True,
        configuration=("T5Config", {**figures, "num_labels": 2, "tie_word_embeddings": False}),
        options={"key_mapping": {r"^t5\.": ""}},
    )


def hhem_prompt(place: Location) -> str:
    """Return the prompt of a hallucination evaluation model, its own where its config has one."""
    stated = place.config("prompt")
    if isinstance(stated, str) and stated.count("{text1}") == stated.count("{text2}") == 1:
        return stated.replace("{text1}", "{long}").replace("{text2}", "{short}")
    return HHEM_PROMPT


def hhem_tokenizer(place: Location) -> Location:
    """Return where its tokenizer lies: beside the weights, or with the model it was made from."""
    if place.has_tokenizer():
        return place
    foundation = place.config("foundation")
    return locate_tokenizer(foundation if isinstance(foundation, str) else HHEM_FOUNDATION)


class MiniCheck(EntailmentHead):
    """lytang/MiniCheck-Flan-T5-Large: one decoder step, the token of "1" against that of "0".

    Tang, Laban and Durrett, "MiniCheck" (EMNLP 2024), and its published inference code.
    """

    def __init__(self, network: Network, labels: tuple[str, ...], model: str) -> None:
        super().__init__(network, labels)
        self._answers = list(answer_tokens(network, model))
        self._start = network.module.config.decoder_start_token_id or 0

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[Tokens]:
        """Tokenise document and claim with the end sign between them."""
        return read_prompts(self.network.tokenizer, MINICHECK_PROMPT, longs, shorts)

    def logits(self, windows: Sequence[Window]) -> Any:
        """Return those of "0" (unsupported) and "1" (supported)."""
        return self._first_token(windows)[:, self._answers]

    def answered(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return how likely the answer is one of the two at all, shape (windows,)."""
        total: NDArray[np.float64] = _softmax(self._first_token(windows))[:, self._answers].sum(
            axis=1
        )
        return total

    def _first_token(self, windows: Sequence[Window]) -> Any:
        import torch

        start = torch.full((len(windows), 1), self._start, device=self.network.device)
        output = self.network.run(windows, decoder_input_ids=start, use_cache=False)
        return output.logits[:, 0]


def answer_tokens(network: Network, model: str) -> tuple[int, int]:
    """Return the first tokens of the answers "0" and "1".

    The vocabulary of flan-t5 has no word "0": its first token is the bare word boundary, which is
    what the published code reads as "0".

    Raises
    ------
    ModelError
        If they are the same, so that one decoder step cannot tell the answers apart.
    """
    zero, one = (
        network.tokenizer(answer, add_special_tokens=False)["input_ids"][:1]
        for answer in ("0", "1")
    )
    unknown = [network.tokenizer.unk_token_id]
    if not zero or not one or zero == one or unknown in (zero, one):
        raise ModelError(
            f'{model}: its tokenizer does not begin the answers "0" and "1" with tokens of their '
            "own, as a MiniCheck model's does"
        )
    return zero[0], one[0]


def _softmax(logits: Any) -> NDArray[np.float64]:
    import torch

    result: NDArray[np.float64] = torch.softmax(logits.double(), dim=-1).cpu().numpy()
    return result
