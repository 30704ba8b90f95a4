"""Are tests put into the tier that the list says, and is the list what was measured?"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiers import ROOT, Cost, Tiers, costs, listed, prefixes, written

TIERS = Tiers(
    frozenset({"tests/a.py", "tests/b.py::test_one", "tests/b.py::test_two[x-y]", "tests/b.py::C"}),
    frozenset({"tests/a.py::test_kept", "tests/b.py::test_one[k]"}),
)


def test_a_test_answers_to_its_function_class_and_file() -> None:
    names = ["tests/b.py::C::test_x[a::b]", "tests/b.py::C::test_x", "tests/b.py::C", "tests/b.py"]
    assert list(prefixes(names[0])) == names


@pytest.mark.parametrize(
    ("test", "slow"),
    [
        ("tests/a.py::test_any", True),
        ("tests/a.py::test_kept[1]", False),
        ("tests/b.py::test_one[z]", True),
        ("tests/b.py::test_one[k]", False),
        ("tests/b.py::test_two[x-y]", True),
        ("tests/b.py::test_two[x]", False),
        ("tests/b.py::C::test_x", True),
        ("tests/c.py::test_one", False),
    ],
)
def test_the_line_that_says_most_decides(test: str, slow: bool) -> None:
    assert TIERS.is_slow(test) is slow


def test_a_file_is_left_out_whole_where_nothing_of_it_is_kept() -> None:
    assert not TIERS.holds("tests/a.py") and not TIERS.holds("tests/b.py")
    assert Tiers(TIERS.slow, frozenset()).holds("tests/a.py")


def test_a_shared_fixture_is_shared_by_its_users() -> None:
    found = [
        Cost("one", 0.5, {"made": 3.0}, ["made"]),
        Cost("two", 0.25, {}, ["made"]),
        Cost("three", 0.25, {}, []),
        Cost("first to import", 9.0, {}, [], 2000),
    ]
    assert costs(found) == {"one": 2.0, "two": 1.75, "three": 0.25}


def test_a_function_is_listed_once_where_all_its_parameters_are_slow() -> None:
    seconds = {"f.py::a[1]": 1.0, "f.py::a[2]": 2.0, "f.py::b[1]": 1.0, "f.py::b[2]": 0.2}
    assert listed(seconds, Tiers(frozenset(), frozenset())) == ["f.py::a", "f.py::b[1]"]


def test_what_was_not_measured_stays_in_the_list_while_its_file_is_there() -> None:
    names = {"tests/test_tiers.py::test_not_run", "tests/gone.py::test_not_run"}
    tiers = Tiers(frozenset({*names, "tests/test_tiers.py::test_quick"}), frozenset())
    assert listed({"tests/test_tiers.py::test_quick": 0.1}, tiers) == [
        "tests/test_tiers.py::test_not_run"
    ]


def test_what_a_person_wrote_above_the_list_stays(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("# Why.\n+ f.py::kept\n\nold.py\n")
    written(["f.py::a"], path)
    assert path.read_text() == "# Why.\n+ f.py::kept\n\nf.py::a\n"
    assert Tiers.read(path) == Tiers(frozenset({"f.py::a"}), frozenset({"f.py::kept"}))


def test_every_file_in_the_list_is_there() -> None:
    tiers = Tiers.read()
    kept = {name.partition("::")[0] for name in tiers.kept}
    assert [name for name in sorted(tiers.files | kept) if not (ROOT / name).is_file()] == []
