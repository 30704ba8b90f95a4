"""Token classification over windows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.loading import PUBLISHED, Architecture
from calibrail.models.networks import AnyNetwork
from calibrail.models.pairs import CONTRADICTION, NOT_ENTAILMENT, WindowModel, meaning
from calibrail.models.windows import LEAST_LONG, TokenPair, Window, passes, read_framed

#: What goes before the contexts, the contexts, what goes behind them, and the answer.
Reading = tuple[str, str, str, str]

#: It goes up when the same answer would be read as another text.
PROMPT: Final = "lettucedetect/1"

#: Models that give their outputs no names, and which one of two is the hallucinated token's:
#: LettuceDetect's code reads the second one.
UNNAMED: Final = {"KRLabsOrg/lettucedect-": "LABEL_1", "KRLabsOrg/tinylettuce-": "LABEL_1"}

_FALSE: Final = (NOT_ENTAILMENT, CONTRADICTION)

#: What a model is asked when it is opened: an answer that is half true.
SELF_TEST: Final = PUBLISHED["self_tests"]["tokens"]
#: By how much the supported sentence may look worse than the other one.
SWAPPED: Final = 0.5


class TokenProbabilities(NamedTuple):
    """What a model says of the tokens of an answer.

    Attributes
    ----------
    places : tuple of (int, int)
        From which character to which each token lies in the answer.
    hallucinated : tuple of float
        P(hallucinated) of each, the lowest over the windows of the contexts.
    """

    places: tuple[tuple[int, int], ...]
    hallucinated: tuple[float, ...]


class TokenHead:
    """An opened token classifier.

    Parameters
    ----------
    network : Network or GraphNetwork
        The model.
    outputs : sequence of int
        Which of its outputs mean that a token is hallucinated.
    """

    def __init__(self, network: AnyNetwork, outputs: Sequence[int]) -> None:
        self.network, self._outputs = network, list(outputs)

    @staticmethod
    def forward(module: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
        """Return the logits of every token, shape (windows, tokens, outputs)."""
        return (module(**inputs).logits,)

    def values(self, windows: Sequence[Window]) -> list[NDArray[np.float64]]:
        """Return for each window P(hallucinated) of the answer's tokens in it."""
        import torch

        logits = self.network.first(windows, self.forward).double()
        table = torch.softmax(logits, dim=-1)[..., self._outputs].sum(dim=-1).cpu().numpy()
        return [row[slice(*item.short)] for row, item in zip(table, windows, strict=True)]


@dataclass(eq=False)
class TokenClassifier(WindowModel[Reading, TokenHead, TokenProbabilities]):
    """A token classifier of the LettuceDetect kind: contexts and question, and then the answer.

    Scores of one process share one: ``shared`` in ``models/batching.py``.

    Contexts that do not fit are read in overlapping windows, each with the question and the whole
    answer, and the lowest probability of a token counts: support may stand in any window. The
    answer is never cut; one that takes more than half of what fits is read in consecutive parts.

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

    def describe(self) -> dict[str, Any]:
        """Return the outputs, which of them mean a hallucinated token, and the prompt."""
        names = self._names()
        chosen = [names[index] for index in self._hallucinated()]
        return {"head": "token classifier", "labels": names, "hallucinated": chosen} | {
            "prompt": PROMPT
        }

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
        tokens = self._read(head, [reading(*sample) for sample in PUBLISHED["samples"]["tokens"]])
        return [passes(item, self.length, None)[0] for item in tokens]

    def compute(self, items: Sequence[Reading]) -> None:
        """Read answers in batches of their windows, and keep the lowest probabilities of each."""
        tokenised = self._read(self.head, items)
        by_item = [passes(tokens, self.length, self.window) for tokens in tokenised]
        values = iter(self.outputs([window for windows in by_item for window in windows]))
        for item, tokens, windows in zip(items, tokenised, by_item, strict=True):
            lowest = _lowest([(window.first_short, next(values)) for window in windows])
            result = TokenProbabilities(tuple(tokens.short.offsets), tuple(lowest.tolist()))
            self.keep(item, result, 1 + len(lowest))

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
        known = [name for start, name in UNNAMED.items() if self.model.startswith(start)]
        label = self.label
        if label is None and known and known[0] in names:
            label = known[0]
        if label is not None:
            if label not in names:
                raise InputError(
                    f"label must be one of the outputs of {self.model} ({', '.join(names)}); "
                    f"got {label!r}"
                )
            return [names.index(label)]
        meanings = [meaning(name) for name in names]
        wrong = [index for index, known in enumerate(meanings) if known in _FALSE]
        if not all(meanings) or not 0 < len(wrong) < len(names):
            raise ModelError(
                f"{self.model}: its outputs ({', '.join(names)}) do not say which of them means "
                "that a token is hallucinated. If you know it from its model card, name it: "
                f"label={names[-1]}"
            )
        return wrong

    def _self_test(self, head: TokenHead) -> None:
        """Refuse a model that finds a supported sentence clearly worse than a contradicted one.

        Raises
        ------
        ModelError
            If it does: then the outputs are taken to be swapped.
        """
        question, contexts, (true, false) = SELF_TEST
        (tokens,) = self._read(head, [reading(question, contexts, true + false)])
        windows = passes(tokens, self.length, self.window)
        rows = [value for window in windows for value in head.values([window])]
        firsts = [window.first_short for window in windows]
        lowest = _lowest(list(zip(firsts, rows, strict=True)))
        is_true = np.array([start < len(true) for start, _ in tokens.short.offsets])
        supported, contradicted = lowest[is_true].mean(), lowest[~is_true].mean()
        if supported > contradicted + SWAPPED:
            raise ModelError(
                f"{self.model}: its outputs look swapped. Given {contexts[0]!r} it finds "
                f"{true!r} hallucinated with {supported:.2f}, and {false.strip()!r} with "
                f"{contradicted:.2f}; name the other output as label="
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


def _lowest(rows: Sequence[tuple[int, NDArray[np.float64]]]) -> NDArray[np.float64]:
    """Return the lowest value of each token over the windows, the parts of the answer in order.

    Parameters
    ----------
    rows : sequence of (int, ndarray)
        The first token of a window's part of the answer, and the values of that part's tokens.
    """
    parts: dict[int, NDArray[np.float64]] = {}
    for first, row in rows:
        parts[first] = np.minimum(parts[first], row) if first in parts else row
    return np.concatenate([np.zeros(0), *(parts[first] for first in sorted(parts))])
