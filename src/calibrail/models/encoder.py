"""How is a text turned into a vector, and its words into theirs, in one forward pass?"""

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibrail.errors import InputError, ModelError
from calibrail.models.api_encoder import PREFIX, ApiEncoder
from calibrail.models.backends import Runtime
from calibrail.models.embedding import Encoder
from calibrail.models.endpoint import resolve_endpoint
from calibrail.models.exporting import Exportable
from calibrail.models.loading import LocalModel, take_into_memory
from calibrail.models.location import DEFAULT_MODEL, full_name
from calibrail.models.sessions import Arrays, GraphSession, ahead
from calibrail.models.store import batches, shared, text_key
from calibrail.models.windows import whole_characters
from calibrail.text.words import WORDS_VERSION, content_words

_PURPOSE: Final = "an encoder"
#: Texts of several lengths, on which an exported model must agree with torch.
SAMPLES: Final = (
    "The bridge over the river was opened in 1932.",
    "Two dogs are running across a field, and the bell of the old tower rings at noon. " * 3,
    "Closed.",
)


class WordSums:
    """Adds up token vectors by content word, over the windows of a text.

    Parameters
    ----------
    text : str
        The text.
    width : int
        Length of the vectors.
    """

    def __init__(self, text: str, width: int) -> None:
        spans = [(word.start, word.end) for word in content_words(text)]
        self._spans = np.array(spans, dtype=np.int64).reshape(-1, 2)
        self._sums = np.zeros((len(spans), width), dtype=np.float32)

    def add(self, offsets: NDArray[np.int64], tokens: NDArray[np.float32]) -> None:
        """Add one window: character offsets (n, 2) and vectors (n, d) of its tokens."""
        if not len(self._spans):
            return
        starts, ends = offsets[:, 0], offsets[:, 1]
        word = np.searchsorted(self._spans[:, 0], starts, side="right") - 1
        # Special tokens are empty; punctuation and stop words lie in no content word.
        inside = (ends > starts) & (word >= 0) & (starts < self._spans[word, 1])
        np.add.at(self._sums, word[inside], tokens[inside])

    def vectors(self) -> NDArray[np.float32]:
        """Return the unit word vectors, shape (words, d)."""
        # The direction of a sum is that of the mean. A word without a token (a character that
        # the vocabulary drops) keeps a zero vector: it resembles nothing.
        norms = np.linalg.norm(self._sums, axis=1, keepdims=True)
        norms[norms == 0.0] = 1.0
        return np.asarray(self._sums / norms)


class LocalEncoder(LocalModel, Encoder):
    """A sentence encoder that runs on this machine.

    Use ``load_encoder``, which shares one encoder between all scores of a process.

    Parameters
    ----------
    model : str
        Hub name or folder.
    revision : str or None
        Revision of a hub model.
    prompt : str
        Put before every text, e.g. ``"query: "`` for E5 used with prompts.
    dtype : {"float32", "bfloat16", "float16", "int8"}
        Precision of the weights. Another precision is another score.
    backend, device : str, str or None
        See ``Runtime``.
    """

    def __init__(
        self,
        model: str,
        revision: str | None,
        prompt: str,
        dtype: str,
        backend: str = "torch",
        device: str | None = None,
    ) -> None:
        for key, value in (("revision", revision), ("prompt", prompt)):
            if not isinstance(value, str) and not (key == "revision" and value is None):
                raise InputError(f'{key} must be a string; got {value!r}; write {key}="{value}"')
        LocalModel.__init__(self, model, revision, dtype, None, backend, device)
        Encoder.__init__(self, prompt)

    def fingerprint(self) -> dict[str, Any]:
        """Return what pins the vectors; reads files, loads no torch.

        Raises
        ------
        ModelError
            If the model is not on this machine and the hub cannot be reached.
        """
        return {
            **LocalModel.fingerprint(self),
            "max_length": self.place.max_length(),
            "prompt": self.prompt,
            "windowing": "sentence vector: first window; words: consecutive windows",
            "words": WORDS_VERSION,
        }

    def embed(self, items: Sequence[tuple[str, bool]]) -> None:
        """Compute the vectors of texts, and of their words where they are wanted, in one pass."""
        opened = self.opened
        encoded = opened.tokenizer(
            [self.prompt + whole_characters(text) for text, _ in items],
            truncation=True,
            max_length=self.place.max_length(),
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
            padding=False,
        )
        owner: list[int] = encoded["overflow_to_sample_mapping"]
        longer = {owner[i] for i in range(1, len(owner)) if owner[i] == owner[i - 1]}
        first = [index == 0 or owner[index] != owner[index - 1] for index in range(len(owner))]
        # Windows after the first serve word vectors only.
        windows = [i for i in range(len(owner)) if first[i] or items[owner[i]][1]]
        self.n_truncated += len(longer)
        self.n_embedded += len(items)
        sums: dict[int, WordSums] = {}
        names = [name for name in opened.tokenizer.model_input_names if name in encoded]

        def compute(batch: list[int]) -> tuple[list[int], Arrays]:
            rows = [windows[index] for index in batch]
            return rows, opened.vectors({name: [encoded[name][i] for i in rows] for name in names})

        lengths = [len(encoded["input_ids"][window]) for window in windows]
        rows_together = partial(self.most_rows, on_gpu=opened.on_gpu)
        chosen = batches(lengths, rows_together)
        for rows, (sentence, tokens) in ahead(compute, chosen, opened.n_workers):
            self.n_passes += 1
            for row, window in enumerate(rows):
                text, wants_words = items[owner[window]]
                if first[window]:
                    self.keep(text, sentence[row].copy(), cut=owner[window] in longer)
                if wants_words:
                    offsets = np.array(encoded["offset_mapping"][window]) - len(self.prompt)
                    if owner[window] not in sums:
                        sums[owner[window]] = WordSums(text, tokens.shape[2])
                    sums[owner[window]].add(offsets, tokens[row, : len(offsets)])
        for index, of_text in sums.items():
            vectors = of_text.vectors()
            self._words.put(text_key(items[index][0]), vectors, vectors.nbytes)

    @cached_property
    def opened(self) -> "TorchEncoder | GraphEncoder":
        """The opened encoder: by torch, or as it was exported."""
        if self.runtime.is_torch:
            return TorchEncoder(self.transformer)
        return GraphEncoder(*self.open_graph(_PURPOSE, self._exportable))

    @cached_property
    def transformer(self) -> Any:
        """The SentenceTransformer, opened by torch."""
        return self._open_transformer()

    def _open_transformer(self, **options: Any) -> Any:
        with self.loading(_PURPOSE, "sentence_transformers") as library:
            if self.device is not None or not self.runtime.is_torch:
                options["device"] = self.torch_device()
            weights = {"dtype": self.torch_dtype(), "use_safetensors": True}
            model = library.SentenceTransformer(
                str(self.place.folder),
                local_files_only=True,
                trust_remote_code=False,
                model_kwargs=weights | options.pop("weights", {}),
                **options,
            )
            take_into_memory(model)
        if not model.tokenizer.is_fast:
            raise ModelError(f"{self.model} has no fast tokenizer, which tells where words lie")
        # One source for the length that the fingerprint states and the one that is used.
        model.max_seq_length = self.place.max_length()
        return model.eval()

    def _exportable(self) -> Exportable:
        model = self._open_transformer(weights={"attn_implementation": "eager"})

        def tokenised(texts: Sequence[str]) -> dict[str, Any]:
            length = self.place.max_length()
            options = {"padding": True, "truncation": True, "max_length": length}
            encoded = model.tokenizer(list(texts), return_tensors="pt", **options)
            return {name: encoded[name] for name in model.tokenizer.model_input_names}

        batches_compared = [tokenised(texts) for texts in (SAMPLES[:1], SAMPLES[1:2], SAMPLES)]
        axes = {"sentence_embedding": (0,), "token_embeddings": (0, 1)}
        return Exportable(model, model.tokenizer, _vectors, batches_compared, axes)


class TorchEncoder:
    """A SentenceTransformer, batch by batch.

    Parameters
    ----------
    model : SentenceTransformer
        In evaluation mode.
    """

    n_workers = 1

    def __init__(self, model: Any) -> None:
        self._model, self.tokenizer = model, model.tokenizer

    @property
    def on_gpu(self) -> bool:
        """Whether a graphics processor computes."""
        return bool(self._model.device.type != "cpu")

    def vectors(self, inputs: Mapping[str, Sequence[Sequence[int]]]) -> Arrays:
        """Return sentence vectors (windows, d) and token vectors (windows, tokens, d), float32."""
        import torch

        features = self.tokenizer.pad(dict(inputs), padding=True, return_tensors="pt")
        with torch.inference_mode():
            on_device = {name: tensor.to(self._model.device) for name, tensor in features.items()}
            return [part.float().cpu().numpy() for part in _vectors(self._model, on_device)]


class GraphEncoder:
    """An exported encoder, batch by batch.

    Parameters
    ----------
    session : GraphSession
        What computes it.
    tokenizer : transformers tokenizer
        A fast one.
    """

    def __init__(self, session: GraphSession, tokenizer: Any) -> None:
        self._session, self.tokenizer = session, tokenizer

    @property
    def n_workers(self) -> int:
        """How many batches are best computed at once."""
        return self._session.n_workers

    @property
    def on_gpu(self) -> bool:
        """Whether a graphics processor computes."""
        return self._session.on_gpu

    def vectors(self, inputs: Mapping[str, Sequence[Sequence[int]]]) -> Arrays:
        """Return sentence vectors (windows, d) and token vectors (windows, tokens, d), float32."""
        features = self.tokenizer.pad(dict(inputs), padding=True, return_tensors="np")
        return self._session.run({name: rows.astype(np.int64) for name, rows in features.items()})


def _vectors(module: Any, inputs: dict[str, Any]) -> tuple[Any, ...]:
    output = module(dict(inputs))
    return output["sentence_embedding"], output["token_embeddings"]


def load_encoder(
    model: str = DEFAULT_MODEL,
    revision: str | None = None,
    prompt: str = "",
    dtype: str = "float32",
    backend: str = "torch",
    device: str | None = None,
) -> Encoder:
    """Return the process's one encoder of this specification; nothing is loaded yet.

    Parameters
    ----------
    model : str
        Hub name or folder. ``all-MiniLM-L6-v2`` is short for the embedded default, and
        ``openai:text-embedding-3-large`` is a model behind an OpenAI-compatible endpoint
        (``openai:MODEL@http://localhost:8000/v1`` names another than the environment's).
    revision : str or None
        Revision of a hub model.
    prompt : str
        Put before every text.
    dtype : {"float32", "bfloat16", "float16", "int8"}
        Precision of the weights.
    backend, device : str, str or None
        See ``Runtime``.

    Raises
    ------
    InputError
        If the backend does not offer the dtype or device, no model is named, or the address is
        none.

    Examples
    --------
    >>> load_encoder("all-MiniLM-L6-v2") is load_encoder()
    True
    """
    if isinstance(model, str) and model.startswith(PREFIX):
        if revision is not None or Runtime(backend, dtype, device) != Runtime():
            raise InputError(
                f"{model} lies behind an endpoint, where revision, dtype, backend and device are "
                "not ours to choose"
            )
        name, _, address = model.removeprefix(PREFIX).partition("@")
        if not name:
            raise InputError(f"an encoder behind an endpoint is named {PREFIX}MODEL; got {model!r}")
        return shared(ApiEncoder, name, resolve_endpoint(address or None), prompt)
    return shared(LocalEncoder, full_name(model), revision, prompt, dtype, backend, device)
