"""What is the digest of each row of a batch, by its id or by what it holds?

The numbers are those of ``Example.digest``: SHA-256 takes half a microsecond a row, and what is
hashed is made for many rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrail.data.arrow_values import coded, kind_of, numbers_of, offsets_of
from calibrail.data.cell_values import spelling
from calibrail.data.names import Texts

_Digests = NDArray[np.uint64]


def id_digests(ids: Texts) -> _Digests:
    """Return the digests of rows that are known by their ids, shape (n,)."""
    offsets, data = offsets_of(ids[:])
    ends = offsets.tolist()
    heads = {size: _head(b"id", size) for size in np.unique(np.diff(offsets)).tolist()}
    return _hashed(heads[stop - start] + data[start:stop] for start, stop in pairwise(ends))


def content_digests(columns: Sequence[Any], n: int) -> tuple[_Digests, NDArray[np.bool_]]:
    """Return the digests of rows that are known by what they hold, and which hold nothing.

    Parameters
    ----------
    columns : sequence of pyarrow.Array, length n each
        All columns but those of labels.

    Returns
    -------
    (ndarray of uint64, ndarray of bool)
        Shapes (n,); the digest of a row that holds nothing means nothing.
    """
    floats: list[NDArray[np.float64]] = []
    words: list[tuple[list[str], NDArray[np.int64]]] = []
    for column in columns:
        kind = kind_of(column.type)
        if kind == "null":
            continue
        if kind == "float":
            floats.append(numbers_of(column, n))
        else:
            values, codes = coded(column)
            words.append((list(map(spelling, values)), codes))
    digests = np.zeros(n, np.uint64)
    matrix = np.array(floats).reshape(len(floats), n).T
    with np.errstate(invalid="ignore"):
        # Numbers that are written as the four bytes of a float32.
        in_bytes = ~np.isnan(matrix) & ((matrix != np.floor(matrix)) | np.isinf(matrix))
    quick = in_bytes.all(axis=1) & (len(floats) > 0)
    word = np.zeros(n, np.int64)
    if len(words) == 1 and len(words[0][0]) <= 64:
        word = words[0][1]
        kinds = words[0][0]
        quick &= np.array([not text.endswith("\0") for text in kinds], np.bool_)[word]
    elif words:
        quick[:] = False
    else:
        kinds = [""]
    if quick.any():
        bits = np.sort(matrix[quick].astype(">f4").view(">u4").astype(np.uint32), axis=1)
        digests[quick] = _of_numbers(bits, kinds, word[quick])
    rest = np.flatnonzero(~quick)
    empty = np.zeros(n, np.bool_)
    if len(rest):
        cells = [
            [spelling(value) for value in matrix[rest, i].tolist()] for i in range(len(floats))
        ]
        cells += [[texts[code] for code in codes[rest].tolist()] for texts, codes in words]
        held = (
            "\x1f".join(sorted(filter(None, row))).encode("utf-8", "surrogatepass")
            for row in (zip(*cells, strict=True) if cells else [()] * len(rest))
        )
        contents = list(held)
        empty[rest] = [not content for content in contents]
        digests[rest] = _hashed(_head(b"content", len(text)) + text for text in contents)
    return digests, empty


def _of_numbers(
    bits: NDArray[np.uint32], words: Sequence[str], word: NDArray[np.int64]
) -> _Digests:
    """Return the digests of rows that hold numbers, rising, and at most one text beside them."""
    n, k = bits.shape
    digests = np.empty(n, np.uint64)
    digits = np.frombuffer(bits.astype(">u4").tobytes().hex().encode(), np.uint8).reshape(n, k, 8)
    spelled = np.full((n, k, 9), 0x1F, np.uint8)
    spelled[:, :, 1:] = digits
    numbers = digits.reshape(n, k * 8).view("S8")
    for code in np.unique(word).tolist():
        text = words[code].encode("utf-8", "surrogatepass")
        rows = word == code
        # How many numbers stand before the text; UTF-8 sorts as what it spells.
        before = (numbers[rows] < text).sum(axis=1) if text else np.zeros(rows.sum(), np.int64)
        for place in np.unique(before).tolist():
            chosen = np.flatnonzero(rows)[before == place]
            parts = [spelled[chosen, :place].reshape(len(chosen), place * 9)]
            if text:
                piece = np.frombuffer(b"\x1f" + text, np.uint8)
                parts.append(np.broadcast_to(piece, (len(chosen), len(piece))))
            parts.append(spelled[chosen, place:].reshape(len(chosen), (k - place) * 9))
            content = np.concatenate(parts, axis=1)[:, 1:]
            head = np.frombuffer(_head(b"content", content.shape[1]), np.uint8)
            whole = np.empty((len(chosen), len(head) + content.shape[1]), np.uint8)
            whole[:, : len(head)], whole[:, len(head) :] = head, content
            digests[chosen] = _hashed(whole.view(f"S{whole.shape[1]}").ravel().tolist())
    return digests


def _head(kind: bytes, size: int) -> bytes:
    """Return what stands before a text of so many bytes in what is hashed."""
    return len(kind).to_bytes(8, "big") + kind + size.to_bytes(8, "big")


def _hashed(messages: Iterable[bytes]) -> _Digests:
    whole = b"".join([sha256(message).digest() for message in messages])
    return np.frombuffer(whole, ">u8")[::4].astype(np.uint64)
