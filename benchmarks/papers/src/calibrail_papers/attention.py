"""How much of a response's attention falls on its documents, rather than on itself?"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.batching import BATCH_TOKENS, batches
from calibrail.models.loading import Architecture, ReadingModel
from calibrail.models.networks import Network, padded
from calibrail.models.windows import TokenPair, Window, passes, read

#: Documents, and the response.
DocumentsAndResponse = tuple[tuple[str, ...], str]

#: Attention grows with the square of the length: tokens a pass, whatever the model could read.
LONGEST: Final = 1024
#: Bytes of attention that one batch may return.
BATCH_BYTES: Final = 256 * 2**20

_TEMPLATE: Final = "{long}\n{short}"
_ARCHITECTURE: Final = Architecture(
    "AutoModel",
    "a model whose attention is looked at",
    # What follows the last layer.
    may_lack=("pooler",),
    options={"attn_implementation": "eager"},
)


class TokenShare(NamedTuple):
    """The share of one token of the response.

    Attributes
    ----------
    start, end : int
        Characters of the response that the token covers.
    share : float
        As in ``AttentionShare``, of this token alone.
    """

    start: int
    end: int
    share: float


class AttentionShare(NamedTuple):
    """How much a response looks at its documents.

    Attributes
    ----------
    share : float
        Mean over response tokens and heads of the attention that falls on document tokens,
        divided by what falls on document and response tokens; in [0, 1]. NaN where the response
        has no token.
    documents : tuple of float
        The part of each document; they add up to ``share``.
    tokens : tuple of TokenShare
        The tokens of the response in their order.
    """

    share: float
    documents: tuple[float, ...]
    tokens: tuple[TokenShare, ...]


@dataclass(eq=False)
class AttentionModel(ReadingModel[DocumentsAndResponse, Network, AttentionShare]):
    """A transformer whose attention is looked at while it reads documents and a response.

    Scores of one process share one: ``shared`` in ``models/batching.py``.

    The model reads the documents and then the response, each on lines of its own. For each
    response token and each head of the last layers, the attention on document tokens is divided by
    that on document and response tokens; the token itself counts as response, special tokens and
    the breaks between documents count as neither. In a causal model a token sees the response up
    to and including itself; so its first token has a higher share than later ones. Sun et al.,
    "ReDeEP" (arXiv 2410.11414) look at attention in this way.

    Documents that do not fit are read in overlapping windows, each with the whole response, and
    the window of the highest share counts. A response longer than half of what fits is read in
    consecutive parts, whose shares are averaged by their tokens.

    Parameters
    ----------
    model, revision, dtype, window
        See ``LocalModel``; any encoder or causal decoder.
    layers : int
        How many of the last layers count.

    Attributes
    ----------
    n_passes : int
        Forward passes so far (batches).
    n_responses : int
        Responses computed so far.
    """

    block = 256
    block_characters = sys.maxsize
    #: Response tokens and documents whose shares are kept: about 300 MB.
    budget = 2_000_000
    n_responses = 0

    layers: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.runtime.is_torch:
            raise InputError(
                f"backend must be torch where attention is looked at; got {self.backend!r}, which "
                "gives no attention"
            )
        layers: object = self.layers
        if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
            raise InputError(f"layers must be at least 1; got {layers!r}")

    def describe(self) -> dict[str, Any]:
        """Return how many layers count."""
        return {"layers": self.layers}

    @cached_property
    def length(self) -> int:
        """How many tokens are read at a time."""
        return min(self.place.positions(), LONGEST)

    def shares(self, items: Sequence[DocumentsAndResponse]) -> list[AttentionShare]:
        """Return the attention share of each (documents, response).

        Raises
        ------
        ModelError
            If the model cannot be loaded, or returns no attention.
        InputError
            If it has fewer layers than are asked for.
        """
        return self.results(items)

    def texts(self, item: DocumentsAndResponse) -> Sequence[str]:
        """Return the documents and the response."""
        return *item[0], item[1]

    def compute(self, items: Sequence[DocumentsAndResponse]) -> None:
        """Look at the attention of items in batches of their windows."""
        network = self.head
        documents, responses = zip(*items, strict=True)
        joined = list(map("\n".join, documents))
        tokenised = read(network.tokenizer, joined, responses, _TEMPLATE)
        windows = [
            (index, window)
            for index, tokens in enumerate(tokenised)
            for window in passes(tokens, self.length, self.most_tokens)
        ]
        offsets = [tokens.long.offsets for tokens in tokenised]
        places = list(map(document_of, offsets, documents))
        config = network.module.config.get_text_config()
        n_heads: int = config.num_hidden_layers * config.num_attention_heads

        def most_rows(length: int) -> int:
            return min(BATCH_TOKENS // length, BATCH_BYTES // (4 * n_heads * length**2))

        by_item: list[list[tuple[Window, NDArray[np.float64]]]] = [[] for _ in items]
        for batch in batches([len(window.ids) for _, window in windows], most_rows):
            (output,) = network.outputs(
                padded([windows[place][1] for place in batch], network.tokenizer),
                lambda module, inputs: (module(**inputs, output_attentions=True),),
            )
            self.n_passes += 1
            attentions = (output.attentions or ())[-self.layers :]
            if not attentions or any(layer is None for layer in attentions):
                raise ModelError(f"{self.model} returns no attention; choose another model")
            for row, place in enumerate(batch):
                index, window = windows[place]
                n = len(documents[index])
                shares = token_shares(attentions, row, window, places[index], n)
                by_item[index].append((window, shares))
        for item, tokens, window_shares in zip(items, tokenised, by_item, strict=True):
            share = summary(tokens, window_shares, len(item[0]))
            self.keep(item, share, 1 + len(share.tokens) + len(share.documents))
        self.n_responses += len(items)

    def open(self) -> Network:
        """Load the model, as far as it has the layers."""
        network = self.open_network(_ARCHITECTURE)
        config = network.module.config.get_text_config()
        if config.is_encoder_decoder:
            raise ModelError(
                f"{self.model} has an encoder and a decoder; attention shares need a model that "
                "reads one text, such as a BERT or a causal language model"
            )
        if self.layers > config.num_hidden_layers:
            raise InputError(
                f"layers must be at most the {config.num_hidden_layers} of {self.model}; "
                f"got {self.layers}"
            )
        return network


def document_of(offsets: Sequence[tuple[int, int]], documents: Sequence[str]) -> NDArray[np.int64]:
    """Return which document each token belongs to, -1 for a break between two."""
    ends = np.cumsum([len(document) + 1 for document in documents], dtype=np.int64) - 1
    spans = np.array(offsets, dtype=np.int64).reshape(-1, 2)
    # A token that reaches over a break is told by its last character.
    place = np.searchsorted(ends, np.maximum(spans[:, 1] - 1, 0))
    return np.where(spans[:, 0] < ends[place], place, -1)


def token_shares(
    attentions: Sequence[Any], row: int, window: Window, places: NDArray[np.int64], n: int
) -> NDArray[np.float64]:
    """Return for each response token of a window its share on each document, shape (tokens, n)."""
    import torch

    (begin, stop), (short_begin, short_stop) = window.long, window.short
    documents = places[window.first : window.first + stop - begin]
    # One column a document, and the last for the response.
    columns = torch.zeros((attentions[0].shape[-1], n + 1), dtype=torch.float64)
    inside = np.flatnonzero(documents >= 0)
    columns[begin + inside, documents[inside]] = 1.0
    columns[short_begin:short_stop, n] = 1.0
    looks = (layer[row, :, short_begin:short_stop].double().cpu() for layer in attentions)
    mass = np.concatenate([(look @ columns).numpy() for look in looks])
    total = mass.sum(axis=2, keepdims=True)
    # A head that looks at special tokens only says nothing of either.
    says = total > 0.0
    parts = np.divide(mass, total, out=np.zeros_like(mass), where=says)[..., :n]
    count = says.sum(axis=0)
    shares: NDArray[np.float64] = np.full(parts.shape[1:], np.nan)
    np.divide(parts.sum(axis=0), count, out=shares, where=count > 0)
    return shares


def summary(
    tokens: TokenPair, window_shares: Sequence[tuple[Window, NDArray[np.float64]]], n: int
) -> AttentionShare:
    """Return the best window of each part of the response, the parts one after the other."""
    best: dict[int, NDArray[np.float64]] = {}
    for window, shares in window_shares:
        part = window.first_short
        known = best.get(part)
        # A window in which all attention falls on special tokens says nothing.
        worse = known is not None and shares.sum(axis=1).mean() <= known.sum(axis=1).mean()
        if known is None or not (worse or np.isnan(shares).any()):
            best[part] = shares
    if not best:
        return AttentionShare(float("nan"), (float("nan"),) * n, ())
    by_token = np.concatenate([best[part] for part in sorted(best)])
    documents = by_token.mean(axis=0)
    return AttentionShare(
        share=float(documents.sum()),
        documents=tuple(documents.tolist()),
        tokens=tuple(
            TokenShare(start, end, float(share))
            for (start, end), share in zip(tokens.short.offsets, by_token.sum(axis=1), strict=True)
        ),
    )
