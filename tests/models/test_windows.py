from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrail.errors import ModelError
from calibrail.models.windows import Side, TokenPair, assemble, cut, stretches


def pair(n_long: int, n_short: int, *, long_first: bool = True, words: int = 1) -> TokenPair:
    """[0] long [1] short [2], the long text's tokens from 1000 and the short one's from 5000."""
    long, short = list(range(1000, 1000 + n_long)), list(range(5000, 5000 + n_short))
    first, second = (long, short) if long_first else (short, long)
    begin, middle = 1, 2 + len(first)
    spans = (begin, begin + len(first)), (middle, middle + len(second))
    return TokenPair(
        ids=[0, *first, 1, *second, 2],
        types=[0] * (2 + len(first)) + [1] * (1 + len(second)),
        long=side(*spans[0 if long_first else 1], words),
        short=side(*spans[1 if long_first else 0], 1),
    )


def side(first: int, stop: int, words: int) -> Side:
    n = stop - first
    starts = [i for i in range(1, n) if i % words == 0]
    return Side(first, stop, [(4 * i, 4 * i + 3) for i in range(n)], starts, 4 * n)


class TestStretches:
    @settings(max_examples=300, deadline=None)
    @given(st.integers(0, 3000), st.integers(1, 400), st.integers(1, 30), st.booleans())
    def test_every_short_stretch_is_whole_in_one(
        self, n: int, size: int, words: int, overlapping: bool
    ) -> None:
        found = stretches(n, size, list(range(words, n, words)), overlapping=overlapping)
        assert found[0][0] == 0
        assert found[-1][1] == n
        assert all(end - start <= size for start, end in found)
        if not overlapping:
            assert [a for _, a in found[:-1]] == [b for b, _ in found[1:]]
            return
        assert found == sorted(found)
        run = max(size // 4, 1)
        starts = np.arange(max(n - run, 0) + 1)
        whole = np.zeros(len(starts), dtype=bool)
        for start, end in found:
            whole |= (starts >= start) & (starts + min(run, n) <= end)
        assert whole.all()

    def test_windows_begin_and_end_between_words(self) -> None:
        words = list(range(5, 1000, 5))
        for start, end in stretches(1000, 64, words):
            assert start % 5 == 0
            assert end % 5 == 0

    def test_the_last_window_is_full(self) -> None:
        *_, before, last = stretches(1000, 64, list(range(1000)))
        assert last == (936, 1000)
        assert before[1] < 1000


class TestCut:
    @pytest.mark.parametrize("long_first", [True, False])
    def test_a_pair_that_fits_is_read_as_it_is(self, long_first: bool) -> None:
        tokens = pair(50, 10, long_first=long_first)
        (window,), truncated = cut(tokens, 63, None)
        assert not truncated
        assert (window.ids, window.types) == (tokens.ids, tokens.types)
        assert window.long == (tokens.long.first, tokens.long.stop)
        assert window.short == (tokens.short.first, tokens.short.stop)
        assert (window.start, window.end) == (0, 200)

    @pytest.mark.parametrize("long_first", [True, False])
    def test_each_window_holds_the_whole_short_text(self, long_first: bool) -> None:
        tokens = pair(1000, 40, long_first=long_first)
        windows, truncated = cut(tokens, 128, None)
        assert not truncated
        read = set()
        for window in windows:
            assert len(window.ids) == len(window.types) <= 128
            assert window.ids[slice(*window.short)] == list(range(5000, 5040))
            long = window.ids[slice(*window.long)]
            assert long[0] == 1000 + window.first
            assert (window.start, window.end) == (
                4 * window.first,
                4 * (window.first + len(long) - 1) + (3 if long[-1] < 1999 else 4),
            )
            assert [i for i in window.ids if i < 1000] == [0, 1, 2]
            read.update(long)
        assert read == set(range(1000, 2000))

    def test_the_short_text_is_cut_only_where_too_little_is_left(self) -> None:
        (*_, window), truncated = cut(pair(1000, 512 - 3 - 64), 512, None)
        assert not truncated
        (*_, window), truncated = cut(pair(1000, 512 - 3 - 63), 512, None)
        assert truncated
        assert window.ids[slice(*window.short)] == list(range(5000, 5000 + 512 - 3 - 64))
        assert window.long[1] - window.long[0] == 64

    def test_a_small_model_leaves_half_to_the_long_text(self) -> None:
        windows, truncated = cut(pair(100, 100), 32, None)
        assert truncated
        assert {w.long[1] - w.long[0] for w in windows} == {16}

    @pytest.mark.parametrize(("n_long", "n_short"), [(0, 0), (0, 3), (3, 0)])
    def test_empty_texts_are_one_window(self, n_long: int, n_short: int) -> None:
        tokens = pair(n_long, n_short)
        (window,), truncated = cut(tokens, 32, None)
        assert window.ids == tokens.ids
        assert not truncated

    def test_a_model_smaller_than_its_template_is_refused(self) -> None:
        with pytest.raises(ModelError, match="takes 4 tokens at a time, too few"):
            cut(pair(9, 9), 4, None)


def test_a_part_of_the_short_text_can_be_read_alone() -> None:
    window = assemble(pair(9, 9), (2, 4), (3, 6))
    assert window.ids == [0, 1002, 1003, 1, 5003, 5004, 5005, 2]
    assert (window.first, window.first_short) == (2, 3)
