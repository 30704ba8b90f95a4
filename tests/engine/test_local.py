from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.engine import local, score_examples
from calibrail.errors import InputError
from calibrail.models.embeddings import load_encoder
from calibrail.scores import Scores, build, build_column, parse_specs

CONTEXT = "The Rhine rises in the Alps and flows to the North Sea."


def answers(n: int) -> list[Example]:
    return [
        Example(
            question=f"Where does river {index // 2} rise?",
            contexts=(CONTEXT, f"River {index // 2} is long."),
            response="" if index == 3 else f"It rises in valley {index}.",
            label=(0, 1, None)[index % 3],
            group=None if index == 1 else f"g{index // 2}",
            id=f"a{index}",
            columns={"side": "test", "detector": float(index)},
        )
        for index in range(n)
    ]


def scores(names: str) -> list:
    return [build(spec) for spec in parse_specs(names)]


def test_rows_keep_their_place_across_blocks() -> None:
    examples = answers(10)
    seen: list[int] = []
    table = score_examples(
        iter(examples), scores("length"), keep=("side",), block=4, progress=seen.append
    )
    assert table.ids.to_pylist() == [example.id for example in examples]
    assert table.groups.to_pylist() == [example.group for example in examples]
    assert table.labels.tolist() == [0, 1, -1] * 3 + [0]
    assert table.kept == {"side": ["test"] * 10}
    assert [format(digest, "016x") for digest in table.digests.tolist()] == [
        example.digest("spelt") for example in examples
    ]
    assert table.reasons == {"length": {3: "the response is empty"}}
    assert np.flatnonzero(np.isnan(table.columns["length"])).tolist() == [3]
    assert seen == [4, 8, 10]


def test_blocks_change_rounding_only() -> None:
    examples = answers(12)
    whole = score_examples(examples, scores("sgi,rad,novelty"))
    parts = score_examples(examples, scores("sgi,rad,novelty"), block=5)
    for key, values in whole.columns.items():
        np.testing.assert_allclose(values, parts.columns[key], atol=1e-6)


def test_each_distinct_text_is_embedded_once_for_all_scores() -> None:
    encoder = load_encoder()
    examples = answers(12)
    before = encoder.n_embedded
    score_examples(examples, scores("sgi,rad,rad:weighting=question,tfg"))
    usable = [example for example in examples if example.response]
    texts = {text for e in usable for text in (e.question, e.response, *e.contexts)}
    texts |= {"\n".join(example.contexts) for example in usable}
    assert encoder.n_embedded - before == len(texts)


def test_what_ran_before_leaves_no_trace() -> None:
    examples = answers(12)
    first = score_examples(examples, scores("sgi,rad,tfg"))
    score_examples(examples[5:7], scores("sgi"))
    again = score_examples(examples, scores("sgi,rad,tfg"))
    for key, values in first.columns.items():
        assert again.columns[key].tobytes() == values.tobytes()


def test_truncated_texts_are_counted_once_a_run() -> None:
    long = "river " * 400
    examples = [
        Example("Where?", (long,), "There.", id="1"),
        Example("Why?", (long,), long + "sea", id="2"),
    ]
    assert score_examples(examples, scores("sgi,rad"), block=1).n_truncated == 2
    assert score_examples(examples, scores("rad"), block=1).n_truncated == 2
    assert score_examples(examples, scores("tfg,length")).n_truncated == 0
    assert score_examples(answers(4), scores("sgi")).n_truncated == 0


def test_long_texts_come_in_smaller_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "BLOCK_CHARACTERS", 100)
    seen: list[int] = []
    examples = [Example(response="x" * size) for size in (60, 30, 30, 500, 5)]
    score_examples(examples, scores("length"), progress=seen.append)
    assert seen == [2, 3, 4, 5]


@pytest.mark.parametrize(
    ("names", "block", "message"),
    [
        ("length,length", 4, "each score may be named once; got length twice"),
        ("length", 0, "block must be at least 1; got 0"),
    ],
)
def test_what_cannot_be_scored_is_named(names: str, block: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        score_examples([], scores(names), block=block)


def test_no_example_gives_an_empty_table() -> None:
    table = score_examples([], scores("length"))
    assert len(table) == 0 and table.kept == {}
    assert table.columns["length"].dtype == np.float64


class Short:
    name = "short"
    params: ClassVar[dict[str, object]] = {}
    requires = ()
    tolerance = 0.0

    def fingerprint(self) -> dict[str, object]:
        return {}

    def score(self, examples: Sequence[Example]) -> Scores:
        return Scores(np.zeros(max(len(examples) - 1, 0)))


def test_a_score_that_loses_a_value_is_named() -> None:
    with pytest.raises(InputError, match="short returned 3 values for 4 answers"):
        score_examples(answers(4), [Short()])


def test_many_rows_of_numbers_stay_small() -> None:
    def rows(n: int) -> Iterator[Example]:
        for index in range(n):
            yield Example(id=f"answer-{index}", columns={"detector": float(index)})

    tracemalloc.start()
    try:
        table = score_examples(rows(50_000), [build_column("detector", "faithful")])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert table.columns["detector"][-1] == -49_999.0
    # 200 MiB at a million rows.
    assert peak < 10 * 2**20
