"""The command of a run becomes that of the next step, word by word."""

import pytest

from calibrail.report.documents import commands

COMPARED = (
    "calibrail compare 'my data.csv' --score-column a --score-column=b --higher faithful "
    "--score rad:weighting=question --alpha 0.1 --max-fpr 0.3"
)


def made_by(command: str | None) -> dict[str, dict[str, str | None]]:
    return {"reproduce": {"command": command}}


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("b", "--score-column b --higher faithful -o RUN-b"),
        ("rad:weighting=question", "--score rad:weighting=question -o RUN-rad-weighting-question"),
    ],
)
def test_one_detector_of_a_comparison_is_calibrated_as_it_was_compared(name: str, end: str) -> None:
    command = commands.for_one(made_by(COMPARED), name)
    assert command == f"calibrail calibrate 'my data.csv' --alpha 0.1 --max-fpr 0.3 {end}"


def test_without_the_command_of_a_comparison_there_is_none_for_its_winner() -> None:
    assert commands.for_one(made_by(None), "b") == ""
    assert commands.for_one(made_by(COMPARED), "elsewhere") == ""


def test_a_comparison_takes_what_a_calibration_took_and_it_knows() -> None:
    run = made_by("calibrail calibrate a.csv --score sgi --by=topic --min-n 5 --clustered --seed 3")
    expected = "calibrail compare a.csv --score sgi --seed 3 --score NAME -o RUN-compared"
    assert commands.for_several(run) == expected
    assert commands.for_several(made_by(None)).startswith("calibrail compare DATA --score NAME")


def test_a_column_is_turned_round() -> None:
    run = made_by("calibrail calibrate a.csv --score-column x --higher hallucinated --alpha 0.1")
    assert commands.turned(run) == (
        "calibrail calibrate a.csv --score-column x --alpha 0.1 --higher faithful -o RUN"
    )
    assert commands.turned(made_by("calibrail calibrate a.csv --score length")) == ""
