"""Is the part of a source that is read the first rows, or a lot that sizes do not sway?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import calibrail
from calibrail.data.reading import read
from calibrail.errors import InputError
from calibrail.pipelines.run import frozen_reading
from calibrail.report.documents.data import data_notes
from calibrail.report.documents.measures import part_note


def rows(n: int) -> list[dict[str, Any]]:
    return [{"id": f"a{k}", "response": "x", "label": k % 2} for k in range(n)]


def ids(source: Any, **options: Any) -> list[str]:
    return [example.id for example in read(source, require=("response",), **options)]


def test_a_limit_reads_the_first_rows_of_an_endless_source() -> None:
    def endless() -> Iterator[calibrail.Example]:
        k = 0
        while True:
            yield calibrail.Example(response="x", label=k % 2, id=f"a{(k := k + 1)}")

    assert len(ids(endless(), limit=150)) == 150
    assert ids(rows(300), limit=3) == ["a0", "a1", "a2"]


def test_a_sample_is_as_large_as_asked_seeded_and_in_order() -> None:
    drawn = ids(rows(5000), sample=40)
    assert len(drawn) == 40 and drawn == sorted(drawn, key=lambda name: int(name[1:]))
    assert drawn == ids(rows(5000), sample=40) != ids(rows(5000), sample=40, sample_seed=1)
    assert max(int(name[1:]) for name in drawn) > 2500
    assert ids(rows(30), sample=40) == ids(rows(30))
    assert set(ids(rows(5000), sample=40, limit=100)) <= set(ids(rows(100)))


def test_groups_are_drawn_whole_and_large_ones_as_often_as_small_ones() -> None:
    made = [
        {"id": f"{group}-{k}", "response": "x", "label": 0, "group": f"g{group}"}
        for group in range(120)
        for k in range(9 if group < 60 else 1)
    ]
    size, n_large, n_small = Counter(row["group"] for row in made), 0, 0
    for seed in range(40):
        drawn = read(made, require=("response",), sample=150, sample_seed=seed)
        seen = Counter(example.group for example in drawn)
        assert all(size[str(group)] == n for group, n in seen.items())
        n_large += sum(n == 9 for n in seen.values())
        n_small += sum(n == 1 for n in seen.values())
    # Each of 60 groups, in 40 lots, with probability 150 / 600: 600 +- 4 * 21.2.
    assert abs(n_large - 600) < 85 and abs(n_small - 600) < 85


def test_results_say_that_they_rest_on_a_part_and_a_guardrail_does_not_inherit_it() -> None:
    options = calibrail.ReadOptions(sample=300)
    run = calibrail.calibrate("example:facts", "rouge_l", alpha=0.2, reading=options)
    part = run.data["reading"]["part"]
    assert part == {
        "limit": None,
        "sample": 300,
        "rows": 322,
        "sample_seed": 0,
        "drawn_from": 596,
        "whole_groups": True,
    }
    assert run.data["n_examples"] == part["rows"]
    (note,) = (note for note in run.report.notes if "--sample" in note)
    assert note == (
        "Only a part of the source was read (--sample 300): 322 rows drawn at random (seed 0) from "
        "the source's 596 rows, as whole groups, whatever their size, so that it is about 300."
    )
    assert frozen_reading(run.data["reading"]) is None
    limited = calibrail.calibrate(
        "example:facts", "rouge_l", alpha=0.2, reading=calibrail.ReadOptions(limit=400)
    )
    assert limited.data["n_examples"] == 400
    assert any("the first 400 rows" in note for note in data_notes(limited.data))


@pytest.mark.parametrize(
    "options", [{"limit": 300}, {"sample": 300}, {"limit": 400, "sample": 999}]
)
def test_where_nothing_is_left_out_nothing_is_said(options: dict[str, Any]) -> None:
    opened = read(rows(300), require=("response",), **options)
    assert len(list(opened)) == 300 and opened.part() is None
    assert part_note(opened.part()) == ()


def test_a_sample_of_the_first_rows_says_both() -> None:
    opened = read(rows(300), require=("response",), limit=200, sample=50, sample_seed=3)
    assert len(list(opened)) == 50
    (note,) = part_note(opened.part())
    assert note.endswith("50 rows drawn at random (seed 3) from the first 200 rows of the source.")


@pytest.mark.parametrize("options", [{"limit": 0}, {"sample": -1}, {"sample": 1.5}])
def test_no_rows_or_half_a_row_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
        calibrail.ReadOptions(**options)
