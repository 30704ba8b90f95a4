"""What of the answers of a whole file did people mark as unsupported?"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from calibrail.data.by_sentence import marked_characters, sentence_labels, sentences_of
from calibrail.data.example import Example
from calibrail.data.sentence_columns import SentenceColumns
from calibrail.data.sentence_numbers import NumberLook
from calibrail.data.wide_marks import WideMarkLook


class MarkSurvey:
    """The memory of one pass over n answers; no text.

    Parameters
    ----------
    examples : iterable of Example
        Read once; every sentence has a label.
    share : float
        As in `sentence_labels`.
    columns : sequence of str
        The further columns that the examples carry.

    Attributes
    ----------
    labels : ndarray of int8, shape (n,)
        1 where a sentence is unsupported.
    sentences, unsupported : ndarray of int64, shape (n,)
        How many there are.
    marked, outside : int
        Marked characters, and those of them in no sentence, without white space.
    groups : list of str or None, length n
        As in the examples.
    digests : ndarray of uint64, shape (n,)
        What tells answers apart.
    columns : SentenceColumns
        What the further columns say of sentences.
    wide : WideMarkLook
        Marks that touch neighbours.
    numbers : NumberLook
        Columns that number sentences.
    """

    def __init__(
        self, examples: Iterable[Example], share: float, columns: Sequence[str] = ()
    ) -> None:
        self.columns, self.wide = SentenceColumns(columns), WideMarkLook()
        self.numbers = NumberLook(columns)
        sentences, unsupported, digests = array("Q"), array("Q"), array("Q")
        self.groups: list[str | None] = []
        self.marked = self.outside = 0
        for read in examples:
            # An answer is parted once, whoever asks for its sentences.
            example = replace(read, sentences=sentences_of(read))
            labels = sentence_labels(example, share)
            self.columns.add(example, labels)
            self.wide.add(example, labels)
            self.numbers.add(example)
            sentences.append(len(labels))
            unsupported.append(sum(label == 1 for label in labels))
            digests.append(int(read.digest(), 16))
            self.groups.append(example.group)
            marked, _ = marked_characters(example, 0, len(example.response))
            inside = (
                marked_characters(example, item.start, item.end)[0]
                for item in (sentences_of(example) if marked else ())
            )
            self.marked += marked
            self.outside += marked - sum(inside)
        self.sentences: NDArray[np.int64] = np.array(sentences, dtype=np.int64)
        self.unsupported: NDArray[np.int64] = np.array(unsupported, dtype=np.int64)
        self.labels = (self.unsupported > 0).astype(np.int8)
        self.digests = np.array(digests, dtype=np.uint64)
