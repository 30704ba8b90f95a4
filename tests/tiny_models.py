"""Tiny models with real tokenizers, saved as a hub would hold them and loaded by the adapters.

Their weights are random, but for ``make_matcher``, whose weights are set by hand so that it
really compares a hypothesis with its premise.
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORDS = [
    "the",
    "river",
    "rhine",
    "flows",
    "from",
    "alps",
    "in",
    "snow",
    "sea",
    "mountain",
    "city",
    "bridge",
    "old",
    "tower",
    "bell",
    "rings",
    "not",
    "museum",
    "closed",
    "open",
    "monday",
    "garden",
    "train",
    "leaves",
    "at",
    "noon",
    "ship",
    "sails",
    "north",
    "is",
    "a",
    "of",
    "and",
]
#: Words that no fact of a test contains.
PADDING = ["lorem", "ipsum", "dolor", "amet", "elit", "sed", "tempor", "magna"]

LABELS = ("contradiction", "neutral", "entailment")
CLASSIFIERS = ("bert", "roberta", "xlm-roberta", "deberta-v2", "bart")
LENGTH = 96

_LETTERS = [*string.ascii_letters, *string.digits, *".,:;?!'-()[]<>/"]


def make_tokenizer(
    kind: str, max_length: int | None = LENGTH, letters: Sequence[str] = _LETTERS
) -> Any:
    """Return a fast tokenizer of one family over the words above and single letters."""
    import transformers

    length = {} if max_length is None else {"model_max_length": max_length}
    words = [*WORDS, *PADDING]
    if kind == "bert":
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *letters]
        pieces += [f"##{letter}" for letter in letters if letter.isalnum()]
        vocabulary = {piece: index for index, piece in enumerate(dict.fromkeys(pieces))}
        return transformers.BertTokenizer(vocab=vocabulary, **length)
    if kind in ("roberta", "bart", "gpt2"):
        return _byte_pairs(kind, words, length)
    marked = [("\u2581", -4.0), *((f"\u2581{word}", -3.0) for word in words)]
    single = [(letter, -8.0) for letter in letters]
    if kind == "t5":
        signs = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
        # As in flan-t5: a word "1", and no word "0".
        pieces = [*signs, *marked, ("\u25811", -3.0), *single]
        return transformers.T5Tokenizer(vocab=pieces, extra_ids=0, **length)
    if kind == "xlm-roberta":
        signs = [(sign, 0.0) for sign in ("<s>", "<pad>", "</s>", "<unk>")]
        pieces = [*signs, *marked, *single, ("<mask>", 0.0)]
        return transformers.XLMRobertaTokenizer(vocab=pieces, **length)
    signs = [(sign, 0.0) for sign in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    return transformers.DebertaV2Tokenizer(vocab=[*signs, *marked, *single], **length)


def make_classifier(
    folder: Path,
    kind: str = "bert",
    labels: Sequence[str] = LABELS,
    *,
    seed: int = 0,
    max_length: int = LENGTH,
    order: Sequence[int] | None = None,
) -> Path:
    """Save a sequence classifier with random weights.

    Parameters
    ----------
    folder : Path
        Where to.
    kind : str
        One of ``CLASSIFIERS``.
    labels : sequence of str
        Names of the outputs; one name makes a reranker.
    seed : int
        Of the weights.
    max_length : int
        Tokens that it takes at a time.
    order : sequence of int, optional
        Which output of the same seed's model each output is: permutes weights and names alike.
    """
    import torch
    import transformers

    tokenizer = make_tokenizer(kind, max_length)
    offset = 2 if kind in ("roberta", "xlm-roberta") else 0
    figures: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "max_position_embeddings": max_length + offset,
        "num_labels": len(labels),
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }
    if kind == "bart":
        figures |= {"d_model": 16, "decoder_start_token_id": tokenizer.eos_token_id}
        for side in ("encoder", "decoder"):
            figures |= {f"{side}_layers": 1, f"{side}_attention_heads": 2, f"{side}_ffn_dim": 32}
    else:
        figures |= {
            "hidden_size": 16,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "intermediate_size": 32,
        }
    if kind == "deberta-v2":
        # As DeBERTa-v3 has it: positions as distances only.
        figures |= {
            "relative_attention": True,
            "position_biased_input": False,
            "pos_att_type": ["p2c", "c2p"],
            "share_att_key": True,
            "norm_rel_ebd": "layer_norm",
            "position_buckets": 16,
            "max_relative_positions": -1,
            "type_vocab_size": 0,
        }
    elif kind in ("roberta", "xlm-roberta"):
        figures["type_vocab_size"] = 1
    config = transformers.AutoConfig.for_model(kind, **figures)
    torch.manual_seed(seed)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            # Initialised as published models are, they would say the same of every pair.
            if weights.ndim > 1:
                weights.mul_(16.0 if _is_output(name) and kind != "bart" else 8.0)
            if order is not None and _is_output(name):
                weights.copy_(weights[list(order)])
    order = range(len(labels)) if order is None else order
    model.config.id2label = {index: labels[place] for index, place in enumerate(order)}
    model.config.label2id = {label: index for index, label in model.config.id2label.items()}
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_hhem(folder: Path, *, seed: int = 0, config: dict[str, Any] | None = None) -> Path:
    """Save what vectara/hallucination_evaluation_model holds, small: weights with a prefix."""
    import torch
    import transformers
    from safetensors.torch import save_file

    tokenizer = make_tokenizer("t5", 512)
    torch.manual_seed(seed)
    figures = _t5_figures(len(tokenizer))
    model = transformers.T5ForTokenClassification(transformers.T5Config(**figures, num_labels=2))
    tied = "transformer.encoder.embed_tokens.weight"
    weights = {
        f"t5.{name}": tensor.clone() for name, tensor in model.state_dict().items() if name != tied
    }
    folder.mkdir(parents=True)
    save_file(weights, folder / "model.safetensors")
    stated = {
        "architectures": ["HHEMv2ForSequenceClassification"],
        "auto_map": {"AutoConfig": "configuration_hhem_v2.HHEMv2Config"},
        "model_type": "HHEMv2",
        **figures,
        **(config or {}),
    }
    tokenizer.save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps(stated))
    return folder


def make_minicheck(folder: Path, *, seed: int = 0, answers: bool = True) -> Path:
    """Save a T5 that answers with the first token of "0" or "1", or with anything at all."""
    import torch
    import transformers

    tokenizer = make_tokenizer("t5", 512)
    torch.manual_seed(seed)
    figures = _t5_figures(len(tokenizer))
    config = transformers.T5Config(
        **figures, tie_word_embeddings=False, decoder_start_token_id=0, architectures=None
    )
    model = transformers.T5ForConditionalGeneration(config)
    with torch.no_grad():
        output = torch.randn_like(model.shared.weight)
        if answers:
            # The decoder begins at <pad>: a large vector there makes these two answers likely.
            start = model.shared.weight[0]
            start.mul_(20.0 / start.norm())
            for answer in ("0", "1"):
                token = tokenizer(answer)["input_ids"][0]
                output[token] = 0.5 * output[token] + 4.0 * start / start.norm()
        model.lm_head.weight = torch.nn.Parameter(output)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_decoder(folder: Path, *, seed: int = 0, max_length: int = LENGTH) -> Path:
    """Save a causal language model (GPT-2) of two layers."""
    import torch
    import transformers

    tokenizer = make_tokenizer("gpt2", max_length)
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer),
        n_positions=max_length,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_matcher(folder: Path, labels: Sequence[str] = LABELS, *, max_length: int = LENGTH) -> Path:
    """Save a BERT that knows entailment: every word of the hypothesis stands in the premise.

    A hypothesis with "not" that the premise lacks is contradicted; one with any other word that it
    lacks is neutral (or not entailed). Probabilities are beyond 0.95. Words that are not among
    those above are all the same to it.

    In the first layer a hypothesis token looks at the same word of the premise where there is one,
    else at itself, and notes which of the two it saw. In the second, [CLS] looks at a token that
    saw itself, most of all at a "not".
    """
    import torch
    import transformers

    tokenizer = make_tokenizer("bert", max_length, ".,")
    n = len(tokenizer)
    lacking, missed, denied = n + 3, n + 4, n + 5
    size = n + 6
    config = _matching_figures(n, size, max_length, layers=2, labels=len(labels))
    model = transformers.BertForSequenceClassification(config)
    never, start = tokenizer.convert_tokens_to_ids(["not", "[CLS]"])
    scale = size**0.5
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
        bert = model.bert
        _look_for_words(bert, n, size)
        second = bert.encoder.layer[1]
        query, key, value = (
            getattr(second.attention.self, part) for part in ("query", "key", "value")
        )
        query.bias[0] = scale
        key.weight[0, lacking], key.weight[0, never], key.weight[0, start] = 120.0, 60.0, 90.0
        value.weight[missed, lacking] = value.weight[denied, never] = 1.0
        for row, seen in enumerate((missed, denied)):
            bert.pooler.dense.weight[row, seen] = 10.0
            bert.pooler.dense.bias[row] = -4.0
        by_label = {
            "entailment": (-4.0, 0.0),
            "neutral": (4.0, -4.0),
            "contradiction": (0.0, 4.0),
            "not_entailment": (4.0, 0.0),
        }
        for row, label in enumerate(labels):
            model.classifier.weight[row, :2] = torch.tensor(by_label[label])
    return _saved(model, tokenizer, labels, folder)


def make_token_matcher(
    folder: Path,
    labels: Sequence[str] = ("supported", "hallucinated"),
    *,
    max_length: int = LENGTH,
    wrong: int = 1,
) -> Path:
    """Save a BERT that takes a token of the second text for hallucinated if the first lacks it.

    Probabilities are beyond 0.95. Words that are not among those above are all the same to it.

    Parameters
    ----------
    folder : Path
        Where to.
    labels : sequence of str
        Names of its two outputs.
    max_length : int
        Tokens that it takes at a time.
    wrong : int
        Which output means hallucinated.
    """
    import torch
    import transformers

    tokenizer = make_tokenizer("bert", max_length, ".,")
    n = len(tokenizer)
    size = n + 6
    config = _matching_figures(n, size, max_length, layers=1, labels=len(labels))
    model = transformers.BertForTokenClassification(config)
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
        _look_for_words(model.bert, n, size)
        # It noted whether it saw the word elsewhere, or itself.
        model.classifier.weight[wrong, n + 3], model.classifier.weight[wrong, n + 2] = 4.0, -4.0
    return _saved(model, tokenizer, labels, folder)


def make_token_classifier(
    folder: Path,
    kind: str = "modernbert",
    labels: Sequence[str] = ("supported", "hallucinated"),
    *,
    max_length: int = 512,
) -> Path:
    """Save a token classifier with random weights: a ModernBERT, as LettuceDetect's are, or a BERT.

    Parameters
    ----------
    folder : Path
        Where to.
    kind : {"modernbert", "bert"}
        The family.
    labels : sequence of str
        Names of its outputs.
    max_length : int
        Tokens that it takes at a time.
    """
    import torch
    import transformers

    tokenizer = make_tokenizer("bert", max_length)
    figures = {
        "vocab_size": len(tokenizer),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": max_length,
        "num_labels": len(labels),
        "pad_token_id": tokenizer.pad_token_id,
    }
    if kind == "modernbert":
        signs = ("bos", "eos", "cls", "sep")
        figures |= {f"{sign}_token_id": tokenizer.sep_token_id for sign in signs}
        figures |= {"local_attention": 64, "global_attn_every_n_layers": 2}
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(kind, **figures)
    model = transformers.AutoModelForTokenClassification.from_config(config)
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim > 1:
                weights.mul_(8.0)
    return _saved(model, tokenizer, labels, folder)


def _matching_figures(n: int, size: int, max_length: int, *, layers: int, labels: int) -> Any:
    import transformers

    return transformers.BertConfig(
        vocab_size=n,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=1,
        intermediate_size=1,
        max_position_embeddings=max_length,
        num_labels=labels,
        layer_norm_eps=1e-12,
    )


def _look_for_words(bert: Any, n: int, size: int) -> None:
    """Let each token of the second text note whether it saw its word in the first, or itself."""
    import torch

    premise, hypothesis, matched, lacking = range(n, n + 4)
    scale = size**0.5
    bert.embeddings.word_embeddings.weight[:, :n] = torch.eye(n)
    bert.embeddings.token_type_embeddings.weight[0, premise] = 1.0
    bert.embeddings.token_type_embeddings.weight[1, hypothesis] = 1.0
    _transparent(bert.embeddings.LayerNorm, 2, size)
    first = bert.encoder.layer[0]
    query, key, value = (getattr(first.attention.self, part) for part in ("query", "key", "value"))
    query.weight[:n, :n] = 60.0 * scale * torch.eye(n)
    query.bias[premise] = 30.0 * scale
    key.weight[: premise + 1, : premise + 1] = torch.eye(premise + 1)
    value.weight[matched, premise] = value.weight[lacking, hypothesis] = 1.0
    for layer in bert.encoder.layer:
        layer.attention.output.dense.weight.copy_(torch.eye(size))
        _transparent(layer.attention.output.LayerNorm, 3, size)
        _transparent(layer.output.LayerNorm, 3, size)


def _saved(model: Any, tokenizer: Any, labels: Sequence[str], folder: Path) -> Path:
    """Save a model with the names of its outputs, and its tokenizer."""
    model.config.id2label = dict(enumerate(labels))
    model.config.label2id = {label: index for index, label in enumerate(labels)}
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def change_config(folder: Path, **changes: Any) -> None:
    """Set keys of a model's config.json; None takes a key away."""
    path = folder / "config.json"
    config = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def _transparent(norm: Any, ones: int, size: int) -> None:
    """Let a layer normalisation pass vectors of this many ones as they are."""
    mean = ones / size
    norm.weight.fill_((mean - mean**2) ** 0.5)
    norm.bias.fill_(mean)


def _is_output(name: str) -> bool:
    return name.startswith(("classifier.out_proj", "classification_head.out_proj")) or name in (
        "classifier.weight",
        "classifier.bias",
    )


def _t5_figures(n: int) -> dict[str, Any]:
    return {
        "vocab_size": n,
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 32,
        "num_layers": 2,
        "num_decoder_layers": 2,
        "num_heads": 2,
        "feed_forward_proj": "gated-gelu",
    }


def _byte_pairs(kind: str, words: Sequence[str], length: dict[str, Any]) -> Any:
    import transformers
    from tokenizers import ByteLevelBPETokenizer

    signs = ["<|endoftext|>"] if kind == "gpt2" else ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    trained = ByteLevelBPETokenizer()
    trained.train_from_iterator(
        [" ".join(words)] * 4, vocab_size=400, show_progress=False, special_tokens=signs
    )
    state = json.loads(trained.to_str())["model"]
    cls = transformers.GPT2Tokenizer if kind == "gpt2" else transformers.RobertaTokenizer
    merges = [tuple(merge) for merge in state["merges"]]
    return cls(vocab=state["vocab"], merges=merges, **length)
