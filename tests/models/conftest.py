"""A sentence encoder of two small layers, made by the tests themselves."""

from __future__ import annotations

import string
from pathlib import Path

import pytest

WORDS = ["the", "river", "rhine", "flows", "alps", "in", "from", "mountain", "snow", "sea"]


def make_encoder(folder: Path, *, seed: int = 0, max_length: int = 16) -> Path:
    """Save a two-layer BERT with a WordPiece vocabulary as a sentence-transformers folder."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    letters = list(string.ascii_lowercase + string.digits)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters, ".", ":"]
    vocabulary += [f"##{letter}" for letter in letters]
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=32,
    )
    plain = folder.with_name(f"{folder.name}-plain")
    BertModel(config).save_pretrained(plain)
    BertTokenizerFast(vocab={w: i for i, w in enumerate(vocabulary)}).save_pretrained(plain)
    modules = [Transformer(str(plain), max_seq_length=max_length), Pooling(16)]
    SentenceTransformer(modules=modules).save(str(folder))
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    return make_encoder(tmp_path_factory.mktemp("encoders") / "tiny")
