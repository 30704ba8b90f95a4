"""A column that holds ratings is not read as labels of 0 and 1."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from calibrail import calibrate, diagnose, read
from calibrail.errors import DataError
from tests.command_line import calibrail

RATINGS = [0, 1, 2, 3, 4, 5] * 20
#: Two slips among a hundred labels.
TYPOS = [0, 1] * 49 + [2, 7]


def rows(labels: list[object]) -> Iterator[dict[str, object]]:
    return ({"response": f"text {i}", "label": label} for i, label in enumerate(labels))


def asked(labels: list[object]) -> list[int]:
    """Return which answers a detector sees until the labels are refused."""
    seen: list[int] = []

    def detector(example: object) -> float:
        seen.append(1)
        return float(len(seen))

    with pytest.raises(DataError):
        calibrate(list(rows(labels)), detector, alpha=0.2)
    return seen


@pytest.mark.filterwarnings("ignore:The detector")
@pytest.mark.parametrize(
    "labels",
    [
        RATINGS,
        sorted(RATINGS),
        [str(value) for value in RATINGS],
        [float(value) for value in RATINGS],
        [0, 1] * 45 + ["unsure"] * 10,
        # A third number of 2%, as -1 stands for unknown.
        [0, 1] * 245 + [-1] * 10,
    ],
)
def test_other_values_are_refused_by_name_before_the_work(labels: list[object]) -> None:
    with pytest.raises(DataError, match="is no column of 0 and 1"):
        list(read(list(rows(labels)), require=("response",)))
    assert not asked(labels)


def test_the_message_counts_the_values_and_says_what_reads_them() -> None:
    message = "holds 2 (20), 3 (20), 4 (20), 5 (20), beside 0 (20), 1 (20). Say what each value"
    with pytest.raises(DataError) as refused:
        calibrate(scores=range(120), labels=RATINGS, alpha=0.2)
    assert "in 80 of 120 labelled rows" in str(refused.value)
    assert message in str(refused.value)
    assert "label_map={'0': '?', '1': '?', '2': '?'" in str(refused.value)
    assert "positive='VALUE'" in str(refused.value)


@pytest.mark.parametrize("labels", [TYPOS, [0, 1, 1, 2, 3, "x"], [0, 1] * 20 + ["", None] * 20])
def test_slips_and_missing_labels_are_quarantined(labels: list[object]) -> None:
    reading = read(list(rows(labels)), require=("response",))
    kept = [example.label for example in reading]
    assert kept == [label for label in labels if label in (0, 1)]
    assert reading.n_quarantined == len(labels) - len(kept)


@pytest.mark.parametrize("label_map", [{0: 0, 1: 0, 2: 0, 3: 1, 4: 1, 5: "skip"}, None])
def test_what_a_user_says_of_every_value_is_read(label_map: dict[int, object] | None) -> None:
    positive = None if label_map else 5
    reading = read(
        list(rows(RATINGS)), require=("response",), label_map=label_map, positive=positive
    )
    assert sum(example.label or 0 for example in reading) == (40 if label_map else 20)
    with pytest.raises(DataError, match="in 80 of 120"):
        list(read(list(rows(RATINGS)), require=("response",), label_map={0: 0, 1: 1}))


def test_a_graded_label_needs_a_cut_off() -> None:
    with pytest.raises(DataError, match="needs a cut-off"):
        list(read(list(rows([i / 50 for i in range(51)])), require=("response",)))


def test_the_doctor_shows_the_flags(tmp_path: Path) -> None:
    path = tmp_path / "ratings.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows([*RATINGS, "FAIL"])))
    facts = diagnose(path)
    assert "labels_unclear" in {finding.code for finding in facts.warnings}
    assert facts.suggested[-2:] == ("--label-map", "0=?,1=?,2=?,3=?,4=?,5=?,FAIL=1")
    shown = calibrail("doctor", path)
    assert "--label-map '0=?,1=?,2=?,3=?,4=?,5=?,FAIL=1'" in " ".join(shown.stdout.split())
    refused = calibrail("calibrate", path, "--score", "length", "-o", tmp_path / "run")
    assert refused.returncode == 1
    assert "column 'label' is no column of 0 and 1" in refused.stderr
