"""How much of a response's attention falls on its documents, rather than on itself?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.attention_shares import (
    AttentionShare,
    document_of,
    summary,
    token_shares,
)
from calibrail.models.layout import Tokens, read_prompts
from calibrail.models.loading import LocalModel, Network, open_network
from calibrail.models.location import DEFAULT_MODEL, EMBEDDED_NAMES, Location
from calibrail.models.pairs import ResultStore
from calibrail.models.store import text_key
from calibrail.models.windows import BATCH_TOKENS, WINDOWING, Window, assemble, batches, stretches

#: Attention grows with the square of the length: tokens a pass, whatever the model could read.
LONGEST: Final = 1024
#: Bytes of attention that one batch may return.
BATCH_BYTES: Final = 256 * 2**20
#: Response tokens and documents whose shares are kept: about 300 MB.
STORED_SHARES: Final = 2_000_000

_TEMPLATE: Final = "{long}\n{short}"
_BLOCK: Final = 256


class AttentionModel(LocalModel):
    """A transformer whose attention is looked at while it reads documents and a response.

    Use ``load_attention``, which shares one model between all scores of a process.

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

    def __init__(
        self,
        model: str = DEFAULT_MODEL,
        revision: str | None = None,
        dtype: str = "float32",
        layers: int = 4,
        window: int | None = None,
    ) -> None:
        super().__init__(model, revision, dtype, window)
        if isinstance(layers, bool) or not isinstance(layers, int) or layers < 1:
            raise InputError(f"layers must be at least 1; got {layers!r}")
        self.layers = layers
        self.n_responses = 0
        self._store = ResultStore(STORED_SHARES)
        self._opened: tuple[Network, int, int] | None = None

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the shares; reads files, loads no torch.

        Raises
        ------
        ModelError
            If the model is not on this machine and the hub cannot be reached.
        """
        return {
            **super().fingerprint(),
            "layers": self.layers,
            "max_length": _max_length(self.place()),
            "window": self.window,
            "windowing": WINDOWING,
        }

    def prepare(self, items: Iterable[tuple[tuple[str, ...], str]]) -> None:
        """Compute what is not yet known, in length-sorted batches.

        Parameters
        ----------
        items : iterable of (tuple of str, str)
            Documents, and the response.
        """
        unknown = [item for item in dict.fromkeys(items) if self._store.get(_key(item)) is None]
        for start in range(0, len(unknown), _BLOCK):
            self._run(unknown[start : start + _BLOCK])

    def shares(self, items: Sequence[tuple[tuple[str, ...], str]]) -> list[AttentionShare]:
        """Return the attention share of each (documents, response).

        Raises
        ------
        ModelError
            If the model cannot be loaded, or returns no attention.
        InputError
            If it has fewer layers than are asked for.
        """
        self.prepare(items)
        result = []
        for item in items:
            found: AttentionShare | None = self._store.get(_key(item))
            if found is None:
                # Dropped since it was prepared: more was asked for than is kept.
                self._run([item])
                found = self._store.get(_key(item))
            assert found is not None
            result.append(found)
        return result

    def forget(self) -> None:
        """Drop all results, so that the next response is computed by itself."""
        self._store.clear()

    def _run(self, items: Sequence[tuple[tuple[str, ...], str]]) -> None:
        if self._opened is None:
            self._opened = self._open(self.place())
        network, length, heads = self._opened
        longs = ["\n".join(documents) for documents, _ in items]
        read = read_prompts(
            network.tokenizer, _TEMPLATE, longs, [response for _, response in items]
        )
        owners: list[int] = []
        windows: list[Window] = []
        for index, tokens in enumerate(read):
            own = _windows(tokens, length, self.window)
            owners += [index] * len(own)
            windows += own
        places = [
            document_of(tokens.offsets, documents)
            for tokens, (documents, _) in zip(read, items, strict=True)
        ]
        found: list[list[tuple[Window, NDArray[np.float64]]]] = [[] for _ in items]

        def most_rows(length: int) -> int:
            return min(BATCH_TOKENS // length, BATCH_BYTES // (4 * heads * length**2))

        for batch in batches([len(window.ids) for window in windows], most_rows):
            attentions = self._attend(network, [windows[index] for index in batch])
            for row, index in enumerate(batch):
                window, owner = windows[index], owners[index]
                n = len(items[owner][0])
                found[owner].append(
                    (window, token_shares(attentions, row, window, places[owner], n))
                )
        for item, tokens, own_shares in zip(items, read, found, strict=True):
            share = summary(tokens, own_shares, len(item[0]))
            self._store.put(_key(item), share, 1 + len(share.tokens) + len(share.documents))
        self.n_responses += len(items)

    def _attend(self, network: Network, windows: Sequence[Window]) -> list[Any]:
        import torch

        with torch.inference_mode():
            output = network.module(**network.inputs(windows), output_attentions=True)
        self.n_passes += 1
        attentions = (output.attentions or ())[-self.layers :]
        if not attentions or any(layer is None for layer in attentions):
            raise ModelError(f"{self.model} returns no attention; choose another model")
        return list(attentions)

    def _open(self, place: Location) -> tuple[Network, int, int]:
        network = open_network(
            place,
            "AutoModel",
            model=self.model,
            purpose="a model whose attention is looked at",
            dtype=self.dtype,
            # What follows the last layer.
            may_lack={"pooler"},
            attn_implementation="eager",
        )
        config = network.module.config.get_text_config()
        if config.is_encoder_decoder:
            raise ModelError(
                f"{self.model} has an encoder and a decoder; attention shares need a model that "
                "reads one text, such as a BERT or a causal language model"
            )
        n_layers = config.num_hidden_layers
        if self.layers > n_layers:
            raise InputError(
                f"layers must be at most the {n_layers} of {self.model}; got {self.layers}"
            )
        return network, _max_length(place), n_layers * config.num_attention_heads


def _max_length(place: Location) -> int:
    return min(place.positions(), LONGEST)


def _windows(tokens: Tokens, max_length: int, window: int | None) -> list[Window]:
    """Return the passes of one item: each part of the response with each window of documents."""
    n_long = tokens.long[1] - tokens.long[0]
    n_short = tokens.short[1] - tokens.short[0]
    if not n_short:
        return []
    room = max_length - (len(tokens.ids) - n_long - n_short)
    parts = [(0, n_short)]
    if n_long + n_short > room:
        parts = stretches(n_short, max(room // 2, 1), tokens.short_words, overlapping=False)
    result = []
    for part in parts:
        size = max(room - (part[1] - part[0]), 1)
        spans = stretches(n_long, min(size, window or size), tokens.words)
        result += [assemble(tokens, span, part) for span in spans]
    return result


def _key(item: tuple[tuple[str, ...], str]) -> bytes:
    documents, response = item
    return b"".join(text_key(text) for text in (*documents, response))


def load_attention(
    model: str = DEFAULT_MODEL,
    revision: str | None = None,
    dtype: str = "float32",
    layers: int = 4,
    window: int | None = None,
) -> AttentionModel:
    """Return the process's one attention model of this specification; nothing is loaded yet.

    Parameters
    ----------
    model : str
        Hub name or folder. ``all-MiniLM-L6-v2`` is short for the embedded default.
    revision : str or None
        Revision of a hub model.
    dtype : {"float32", "bfloat16", "float16"}
        Precision of the weights.
    layers : int
        How many of the last layers count.
    window : int or None
        Most tokens of the documents a pass; None for what fits.

    Raises
    ------
    InputError
        If an argument is outside its domain.

    Examples
    --------
    >>> load_attention("all-MiniLM-L6-v2") is load_attention()
    True
    """
    full = DEFAULT_MODEL if model in EMBEDDED_NAMES else model
    return _shared(full, revision, dtype, layers, window)


@lru_cache(maxsize=8)
def _shared(
    model: str, revision: str | None, dtype: str, layers: int, window: int | None
) -> AttentionModel:
    return AttentionModel(model, revision, dtype, layers, window)
