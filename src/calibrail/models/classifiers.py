"""Classifiers that read windows of a text: pairs of texts, and single tokens."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain, permutations
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, Library, ModelError
from calibrail.models import loading
from calibrail.models.batching import batches
from calibrail.models.loading import PUBLISHED, Architecture
from calibrail.models.networks import Exportable, Network, padded
from calibrail.models.windows import (
    LEAST_LONG,
    TokenPair,
    Window,
    cut,
    packed,
    passes,
    read,
    read_framed,
)

#: Tokens that models of relative positions read at a time where whole sentences are read together.
WITH_SENTENCES: Final = 2048

torch = Library("torch")


class WindowHead(Protocol):
    """An opened model that reads windows."""

    network: Network

    @staticmethod
    def forward(module: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
        """Return what torch computes of one batch, its logits; this is what is exported."""
        return (module(**inputs).logits,)

    def values(self, windows: Sequence[Window]) -> Collection[NDArray[np.float64]]:
        """Return the values of each window of one batch."""


AnyHead = TypeVar("AnyHead", bound=WindowHead)
Head = TypeVar("Head", bound=WindowHead)


class WindowModel(loading.ReadingModel[loading.Item, Head, loading.Result]):
    """Base of the models that read a long text in windows, and can be exported.

    Parameters
    ----------
    model, revision, dtype, window
        See ``LocalModel``. A ``window`` beyond what the model states is possible for models that
        know relative positions only (T5, DeBERTa-v3).
    """

    #: Axes of the output whose length varies: inputs, or inputs and tokens.
    axes: ClassVar[tuple[int, ...]] = (0,)

    @cached_property
    def length(self) -> int:
        """How many tokens are read at a time, all texts and special tokens included."""
        stated = self.place.positions()
        if isinstance(self.window, str):
            return max(stated, WITH_SENTENCES) if self.place.is_relative() else stated
        if self.window is None or self.window < stated:
            return stated
        if not self.place.is_relative():
            raise InputError.on("window_too_large", stated=stated, of=self)
        return self.window + stated // 2

    def samples(self, head: Head) -> list[Window]:
        """Return windows of several lengths, on which an exported model must agree with torch."""
        raise NotImplementedError

    def open_head(
        self, architecture: loading.Architecture, make: Callable[[Network], AnyHead]
    ) -> AnyHead:
        """Load the model, by torch or as it was exported, and return what reads its outputs."""
        if self.runtime.is_torch:
            return make(self.open_network(architecture))
        exportable = partial(self._exportable, architecture, make)
        return make(self.open_graph(architecture.purpose, exportable))

    def _exportable(
        self, architecture: loading.Architecture, make: Callable[[Network], Any]
    ) -> Exportable:
        options = {**architecture.options, "attn_implementation": "eager"}
        network = self.open_network(replace(architecture, options=options))
        head = make(network)
        windows = self.samples(head)
        batches_of = [
            {name: torch.from_numpy(rows) for name, rows in padded(part, network.tokenizer).items()}
            for part in (windows[:1], windows[1:2], windows)
        ]
        return Exportable(
            network.module, network.tokenizer, head.forward, batches_of, {"logits": self.axes}
        )

    def outputs(self, windows: Sequence[Window]) -> list[NDArray[np.float64]]:
        """Return what the head makes of each window, computed in batches of similar length.

        Raises
        ------
        ModelError
            If a value is no number: the precision is too low for the model.
        """
        values: dict[int, NDArray[np.float64]] = {}
        rows_together = partial(self.most_rows, on_gpu=self.head.network.on_gpu)
        for batch in batches([len(window.ids) for window in windows], rows_together):
            rows = self.head.values([windows[index] for index in batch])
            if not all(np.isfinite(row).all() for row in rows):
                raise ModelError.on("values_no_numbers", of=self)
            values.update(zip(batch, rows, strict=True))
            self.n_passes += 1
        return [values[index] for index in range(len(windows))]


Pair = tuple[str, str]


class Best(NamedTuple):
    """The highest value of each kind over the windows of a pair.

    Attributes
    ----------
    values : tuple of float
        One a kind of value.
    spans : tuple of (int, int)
        For each, the characters of the long text that its window covers.
    n_windows : int
        Passes that the pair took.
    """

    values: tuple[float, ...]
    spans: tuple[tuple[int, int], ...]
    n_windows: int


class PairHead(WindowHead):
    """An opened model that reads pairs; its values are its logits.

    Parameters
    ----------
    network : Network
        The model.
    prompt : str
        With ``{long}`` before ``{short}``; empty for the tokenizer's own template for two texts.
    long_first : bool
        Whether the long text is the first one of a pair.
    """

    def __init__(self, network: Network, prompt: str = "", *, long_first: bool = True) -> None:
        self.prompt = prompt.replace("{eos}", str(network.tokenizer.eos_token))
        self.network, self.long_first = network, long_first

    def read(self, longs: Sequence[str], shorts: Sequence[str]) -> list[TokenPair]:
        """Tokenise pairs as the model was trained to read them."""
        return read(self.network.tokenizer, longs, shorts, self.prompt, long_first=self.long_first)

    def logits(self, windows: Sequence[Window]) -> Any:
        """Return the outputs for one batch as a tensor, shape (windows, outputs)."""
        return self.network.first(windows, self.forward)

    def values(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return the values of one batch, shape (windows, kinds)."""
        return np.asarray(self.logits(windows).double().cpu())


class PairModel(WindowModel[Pair, PairHead, Best]):
    """Base of the models that read two texts together, each distinct pair once.

    Where a pair is too long, only the long text is cut: it is read in overlapping windows or in
    whole sentences, each with the whole short text, and the best window counts. A short text that
    would leave less than 64 tokens for the long one is cut at its end.

    Parameters
    ----------
    model, revision, dtype, window
        See ``LocalModel``. A ``window`` beyond what the model states is possible for models that
        know relative positions only (T5, DeBERTa-v3).

    Attributes
    ----------
    n_passes : int
        Forward passes so far (batches).
    n_pairs : int
        Pairs computed so far.
    n_truncated : int
        Pairs so far whose short text was cut at its end.
    """

    #: Results to keep: about 200 MB.
    budget = 500_000
    packs_sentences = True
    n_pairs = n_truncated = 0

    def settle(self, pairs: Iterable[Pair]) -> None:
        """Compute pairs again, each by itself: what its value is then no batch can change.

        For a caller that draws a line, and whose value lies within ``tolerance`` of it.
        """
        for pair in pairs:
            self.compute([pair])

    def samples(self, head: PairHead) -> list[Window]:
        """Return pairs of several lengths."""
        longs, shorts = zip(*loading.PUBLISHED["samples"]["pairs"], strict=True)
        tokens = head.read(*((longs, shorts) if head.long_first else (shorts, longs)))
        return [cut(pair, self.length, None)[0][0] for pair in tokens]

    def compute(self, items: Sequence[Pair]) -> None:
        """Read pairs in batches of their windows, and keep the best values of each."""
        longs, shorts = zip(*items, strict=True)
        if not self.head.long_first:
            longs, shorts = shorts, longs
        by_pair = []
        for parts in self._parts(longs, shorts):
            by_pair.append(list[Window]())
            is_cut = False
            for first, tokens in parts:
                windows, short_cut = cut(tokens, self.length, self.most_tokens)
                is_cut |= short_cut
                by_pair[-1] += (
                    replace(item, start=first + item.start, end=first + item.end)
                    for item in windows
                )
            self.n_truncated += is_cut
        values = np.array(self.outputs(list(chain.from_iterable(by_pair))))
        ends = np.cumsum([len(windows) for windows in by_pair])
        for pair, windows, rows in zip(items, by_pair, np.split(values, ends[:-1]), strict=True):
            spans = tuple((windows[top].start, windows[top].end) for top in rows.argmax(axis=0))
            self.keep(pair, Best(tuple(rows.max(axis=0).tolist()), spans, len(windows)))
        self.n_pairs += len(items)

    def _parts(
        self, longs: Sequence[str], shorts: Sequence[str]
    ) -> Iterator[list[tuple[int, TokenPair]]]:
        """Yield the pairs as they are read: where each part of a long text begins, and its tokens.

        Whole sentences that are read together are tokenised by themselves.
        """
        if not isinstance(self.window, str):
            yield from ([(0, tokens)] for tokens in self.head.read(longs, shorts))
            return
        tokenizer = self.head.network.tokenizer
        for long, short in zip(longs, shorts, strict=True):
            packs = packed(long, self.window, lambda text: len(tokenizer.tokenize(text)))
            read = self.head.read([long[a:b] for a, b in packs], [short] * len(packs))
            yield [(first, tokens) for (first, _), tokens in zip(packs, read, strict=True)]


ENTAILMENT: Final = "entailment"
NEUTRAL: Final = "neutral"
CONTRADICTION: Final = "contradiction"
NOT_ENTAILMENT: Final = "not_entailment"

_NAMES: Final[Mapping[str, str]] = {
    name: label for label, names in loading.PUBLISHED["labels"].items() for name in names.split()
}
#: What a model may know besides entailment.
_OTHERS: Final = ({NEUTRAL, CONTRADICTION}, {NOT_ENTAILMENT}, {CONTRADICTION})

#: What models with two outputs say, in their order.
TWO_LABELS: Final = (NOT_ENTAILMENT, ENTAILMENT)
#: Labels that a judgement holds, in its order.
JUDGED: Final = (ENTAILMENT, CONTRADICTION)


class EntailmentHead(PairHead):
    """An opened entailment model: a sequence classifier with named classes.

    Parameters
    ----------
    network : Network
        The model.
    labels : tuple of str
        Meaning of each of its outputs, in their order.
    prompt : str
        See ``PairHead``.
    """

    def __init__(self, network: Network, labels: tuple[str, ...], prompt: str = "") -> None:
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

    def __init__(self, network: Network, labels: tuple[str, ...], prompt: str) -> None:
        super().__init__(network, labels, prompt)
        # The vocabulary of flan-t5 has no word "0": its first token is the bare word boundary,
        # which is what the published code reads as "0".
        zero, one = (
            network.tokenizer(answer, add_special_tokens=False)["input_ids"][:1]
            for answer in ("0", "1")
        )
        if not zero or not one or zero == one or [network.tokenizer.unk_token_id] in (zero, one):
            raise ModelError(f'{network.model} is no MiniCheck model: it cannot answer "0" or "1"')
        self._answers = zero + one

    def logits(self, windows: Sequence[Window]) -> Any:
        """Return those of "0" (unsupported) and "1" (supported)."""
        return super().logits(windows)[:, self._answers]

    def answered(self, windows: Sequence[Window]) -> NDArray[np.float64]:
        """Return how likely the answer is one of the two at all, shape (windows,)."""
        return np.asarray(_softmax(super().logits(windows))[:, self._answers].sum(axis=1))

    @staticmethod
    def forward(module: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the logits of all tokens for the first one of the answer."""
        begin = module.config.decoder_start_token_id or 0
        start = torch.full_like(inputs["input_ids"][:, :1], begin)
        return (module(**inputs, decoder_input_ids=start, use_cache=False).logits[:, 0],)


@dataclass(frozen=True, slots=True)
class HeadKind:
    """What a model's files say it is.

    Attributes
    ----------
    name : {"classifier", "hhem", "minicheck", "minicheck classifier", "factcg classifier"}
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
    architecture: loading.Architecture
    prompt: str = ""


def find_kind(place: loading.Location, model: str) -> HeadKind:
    """Tell from a model's files, or a checker's from its name, what kind of model it is.

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
        opened_as = loading.Architecture(architecture, "a MiniCheck model")
        prompt = loading.PUBLISHED["prompts"]["minicheck"]
        return HeadKind("minicheck", TWO_LABELS, MiniCheck, opened_as, prompt)
    opened_as = loading.Architecture("AutoModelForSequenceClassification", "an entailment model")
    for name, known in loading.PUBLISHED["checkers"].items():
        if Path(model).name.startswith(known["named"]):
            head = f"{name} classifier"
            return HeadKind(head, TWO_LABELS, EntailmentHead, opened_as, known["prompt"])
    labels = label_order(place.config("id2label"), model)
    return HeadKind("classifier", labels, EntailmentHead, opened_as)


def _hhem(place: loading.Location) -> HeadKind:
    """Return how a hallucination evaluation model is read: with its own figures and prompt."""
    figures = loading.PUBLISHED["flan_t5_base"]
    stated = {key: place.config(key) for key in figures}
    figures = figures | {key: value for key, value in stated.items() if value is not None}
    architecture = loading.Architecture(
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
        prompt = loading.PUBLISHED["prompts"]["hhem"]
    return HeadKind("hhem", TWO_LABELS, Hhem, architecture, prompt)


def hhem_tokenizer(place: loading.Location) -> loading.Location:
    """Return where its tokenizer lies: beside the weights, or with the model it was made from."""
    if place.has("tokenizer.json"):
        return place
    stated = place.config("foundation")
    return loading.locate_tokenizer(stated if isinstance(stated, str) else "google/flan-t5-base")


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
    labels = tuple(meaning(str(names.get(str(index)))) for index in range(len(names)))
    known = [{ENTAILMENT, *others} for others in _OTHERS]
    if len(set(labels)) != len(labels) or set(labels) not in known:
        listed = ", ".join(f"{key}: {value}" for key, value in names.items()) or "none"
        raise ModelError.on("outputs_say_no_entailment", model=model, listed=listed)
    return labels


def _softmax(logits: Any) -> NDArray[np.float64]:
    return np.asarray(torch.softmax(logits.double(), dim=-1).cpu())


#: Pairs that a model is asked about when it is opened, with known answers.
PAIRS_SELF_TEST: Final = loading.PUBLISHED["self_tests"]["entailment"]
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

    Reads sequence classifiers with named classes, vectara/hallucination_evaluation_model (HHEM),
    MiniCheck and FactCG. At the first use three pairs with known answers are judged.

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
        premises, hypotheses = zip(*PAIRS_SELF_TEST, strict=True)
        windows = [cut(it, self.length, None)[0][0] for it in head.read(premises, hypotheses)]
        probabilities = head.probabilities(windows)
        if not np.isfinite(probabilities).all() or not np.allclose(probabilities.sum(axis=1), 1.0):
            raise ModelError.on("classifier_self_test", model=self.model)
        if isinstance(head, MiniCheck) and head.answered(windows).min() < 0.5:
            raise ModelError(f"{self.model} does not answer 0 or 1 to MiniCheck's prompt")
        answers = [ENTAILMENT, CONTRADICTION, NEUTRAL]
        if NEUTRAL not in head.labels:
            # Two classes: what is left open tells them apart less clearly than a contradiction.
            answers = sorted(head.labels, key=lambda label: label != ENTAILMENT)
        expected = [head.labels.index(answer) for answer in answers]

        def suits(order: Sequence[int]) -> float:
            return float(probabilities[range(len(order)), order].sum())

        best = max(permutations(expected), key=suits)
        if suits(best) > suits(expected) + SWAPPED:
            wrong = hypotheses[int(probabilities[range(len(expected)), expected].argmin())]
            raise ModelError.on("labels_swapped", model=self.model, value=premises[0], wrong=wrong)


#: What goes before the contexts, the contexts, what goes behind them, and the answer.
Reading = tuple[str, str, str, str]

#: It goes up when the same answer would be read as another text; those of the second version
#: neither begin nor end with an empty line.
PROMPTS: Final = ("lettucedetect/1", "lettucedetect/2")

#: Models that give their outputs no names, and which one of two is the hallucinated token's:
#: LettuceDetect's code reads the second one.
UNNAMED: Final = ("KRLabsOrg/lettucedect-", "KRLabsOrg/tinylettuce-")

_FALSE: Final = (NOT_ENTAILMENT, CONTRADICTION)

#: What a model is asked when it is opened: an answer that is half true.
TOKENS_SELF_TEST: Final = PUBLISHED["self_tests"]["tokens"]


class TokenProbabilities(NamedTuple):
    """What a model says of the tokens of an answer.

    Attributes
    ----------
    places : tuple of (int, int)
        From which character to which each token lies in the answer.
    hallucinated : tuple of float
        P(hallucinated) of each, the lowest over the windows of the contexts, or the highest.
    """

    places: tuple[tuple[int, int], ...]
    hallucinated: tuple[float, ...]


class TokenHead(WindowHead):
    """An opened token classifier.

    Parameters
    ----------
    network : Network
        The model.
    outputs : sequence of int
        Which of its outputs mean that a token is hallucinated.
    """

    def __init__(self, network: Network, outputs: Sequence[int]) -> None:
        self.network, self._outputs = network, list(outputs)

    def values(self, windows: Sequence[Window]) -> list[NDArray[np.float64]]:
        """Return for each window P(hallucinated) of the answer's tokens in it."""
        logits = self.network.first(windows, self.forward).double()
        table = torch.softmax(logits, dim=-1)[..., self._outputs].sum(dim=-1).cpu().numpy()
        return [row[slice(*item.short)] for row, item in zip(table, windows, strict=True)]


@dataclass(eq=False)
class TokenClassifier(WindowModel[Reading, TokenHead, TokenProbabilities]):
    """A token classifier of the LettuceDetect kind: contexts and question, and then the answer.

    Scores of one process share one: ``shared`` in ``models/batching.py``.

    Contexts that do not fit are read in overlapping windows, each with the question and the whole
    answer, and the lowest probability of a token counts: support may stand in any window. (Of
    LettuceDetect's second version the highest one does, as in its own code.) The answer is never
    cut; one that takes more than half of what fits is read in consecutive parts.

    Parameters
    ----------
    model, revision, dtype, window
        See ``WindowModel``; of the contexts.
    label : str or None
        The output that means a hallucinated token, where the names of the outputs do not tell.
    """

    #: Tokens whose probabilities are kept: about 200 MB.
    budget = 2_000_000
    axes = (0, 1)

    label: str | None = None

    def reading(self, question: str, contexts: Sequence[str], answer: str) -> Reading:
        """Return an answer with its contexts and question as this model reads them."""
        before, passages, after, answer = reading(question, contexts, answer)
        if self._prompt == PROMPTS[1]:
            before, after = before.lstrip("\n"), after.rstrip("\n")
        return before, passages, after, answer

    @property
    def _prompt(self) -> str:
        return PROMPTS[Path(self.model).name.startswith("lettucedect-v2-")]

    def describe(self) -> dict[str, Any]:
        """Return the outputs, which of them mean a hallucinated token, and the prompt."""
        names = self._names()
        chosen = [names[index] for index in self._hallucinated()]
        outputs = {"labels": names, "hallucinated": chosen}
        return {"head": "token classifier", **outputs, "prompt": self._prompt}

    def probabilities(self, items: Sequence[Reading]) -> list[TokenProbabilities]:
        """Return what the model says of each answer; see `reading`.

        Raises
        ------
        ModelError
            If the model cannot be loaded, or its outputs do not say what they mean.
        """
        return self.results(items)

    def open(self) -> TokenHead:
        """Load the model and ask it about an answer that is half true."""
        architecture = Architecture("AutoModelForTokenClassification", "a token classifier")
        head = self.open_head(architecture, partial(TokenHead, outputs=self._hallucinated()))
        self._self_test(head)
        return head

    def samples(self, head: TokenHead) -> list[Window]:
        """Return answers of several lengths, as far as the model can read them."""
        samples = PUBLISHED["samples"]["tokens"]
        tokens = self._read(head, [self.reading(*sample) for sample in samples])
        return [passes(item, self.length, None)[0] for item in tokens]

    def compute(self, items: Sequence[Reading]) -> None:
        """Read answers in batches of their windows, and keep the probabilities of each token."""
        tokenised = self._read(self.head, items)
        by_item = [passes(tokens, self.length, self.most_tokens) for tokens in tokenised]
        values = iter(self.outputs([window for windows in by_item for window in windows]))
        one = np.maximum if self._prompt == PROMPTS[1] else np.minimum
        for item, tokens, windows in zip(items, tokenised, by_item, strict=True):
            rows = [(window.first_short, next(values)) for window in windows]
            of_tokens = _over_windows(rows, one).tolist()
            result = TokenProbabilities(tuple(tokens.short.offsets), tuple(of_tokens))
            self.keep(item, result, 1 + len(of_tokens))

    def _read(self, head: TokenHead, items: Sequence[Reading]) -> list[TokenPair]:
        """Return the tokens of answers and contexts; a question that is too long is read with them.

        So it is cut into windows, too.
        """
        tokenizer = head.network.tokenizer
        befores, contexts, afters, answers = zip(*items, strict=True)
        frames = list(zip(befores, afters, strict=True))
        tokenised = read_framed(tokenizer, frames, contexts, answers)
        for row, tokens in enumerate(tokenised):
            around = len(tokens.ids) - len(tokens.long) - len(tokens.short)
            if around + LEAST_LONG > self.length // 2:
                whole = "".join(items[row][:3])
                (tokenised[row],) = read_framed(tokenizer, [("", "")], [whole], [answers[row]])
        return tokenised

    def _names(self) -> list[str]:
        """Return the names of the outputs in their order, as transformers has them by default."""
        stated = self.place.config("id2label")
        names = stated if isinstance(stated, dict) else {}
        return [str(names.get(str(i))) for i in range(len(names))] or ["LABEL_0", "LABEL_1"]

    def _hallucinated(self) -> list[int]:
        """Return which outputs mean that a token is hallucinated.

        Raises
        ------
        InputError
            If the label that is named is none of the model's.
        ModelError
            If none is named, and the names do not tell.
        """
        names = self._names()
        label = self.label
        if label is None and self.model.startswith(UNNAMED) and "LABEL_1" in names:
            label = "LABEL_1"
        if label is not None:
            if label not in names:
                raise InputError.on("label_unknown", asked=self, names=", ".join(names))
            return [names.index(label)]
        meanings = [meaning(name) for name in names]
        wrong = [index for index, known in enumerate(meanings) if known in _FALSE]
        if not all(meanings) or not 0 < len(wrong) < len(names):
            listed = ", ".join(names)
            raise ModelError.on("outputs_unnamed", model=self.model, listed=listed, last=names[-1])
        return wrong

    def _self_test(self, head: TokenHead) -> None:
        """Refuse a model that finds a supported sentence clearly worse than a contradicted one.

        Raises
        ------
        ModelError
            If it does: then the outputs are taken to be swapped.
        """
        question, contexts, (true, false) = TOKENS_SELF_TEST
        (tokens,) = self._read(head, [self.reading(question, contexts, true + false)])
        windows = passes(tokens, self.length, self.most_tokens)
        rows = [value for window in windows for value in head.values([window])]
        firsts = [window.first_short for window in windows]
        lowest = _over_windows(list(zip(firsts, rows, strict=True)))
        is_true = np.array([start < len(true) for start, _ in tokens.short.offsets])
        supported, contradicted = lowest[is_true].mean(), lowest[~is_true].mean()
        if supported > contradicted + SWAPPED:
            raise ModelError.on(
                "outputs_swapped",
                model=self.model,
                context=contexts[0],
                true=true,
                false=false.strip(),
                supported=supported,
                contradicted=contradicted,
            )


def reading(question: str, contexts: Sequence[str], answer: str) -> Reading:
    r"""Return an answer with its contexts and question as LettuceDetect's models read them.

    Without a question the contexts are read as a text that was summarised.

    >>> reading("", ["It is open."], "It is closed.")[1:]
    ('passage 1: It is open.', '\noutput:\n', 'It is closed.')
    """
    n = len(contexts)
    passages = "\n".join(f"passage {place}: {text}" for place, text in enumerate(contexts, 1))
    prompts = PUBLISHED["prompts"]
    if not question.strip():
        before, after = prompts["lettucedetect_summarised"]
        return before, passages, after, answer
    before, after = prompts["lettucedetect_asked"]
    # A brace in the question stays what it is.
    return before.format(question=question, n=n), passages, after, answer


def _over_windows(
    rows: Sequence[tuple[int, NDArray[np.float64]]], one: Callable[..., Any] = np.minimum
) -> NDArray[np.float64]:
    """Return one value of each token over the windows, the parts of the answer in order.

    Parameters
    ----------
    rows : sequence of (int, ndarray)
        The first token of a window's part of the answer, and the values of that part's tokens.
    one : callable
        Which of two: the lower, or the higher one.
    """
    parts: dict[int, NDArray[np.float64]] = {}
    for first, row in rows:
        parts[first] = one(parts[first], row) if first in parts else row
    return np.concatenate([np.zeros(0), *(parts[first] for first in sorted(parts))])
