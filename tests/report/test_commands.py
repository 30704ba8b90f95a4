"""The command of a run becomes that of the next step, word by word."""

from typing import Any

import pytest

from calibrail.cli import app
from calibrail.report.documents import next_steps


def made_by(command: str | None, baselines: str | None = None) -> dict[str, dict[str, Any]]:
    return {"reproduce": {"command": command}, "data": {"baselines": {"none": baselines}}}


def test_a_comparison_takes_what_a_calibration_took_and_it_knows() -> None:
    run = made_by(
        "calibrail calibrate a.csv --score sgi --by=topic --min-n 5 --clustered --seed 3 "
        "--cost-miss 20 --cost-alarm=1 --base-rate 0.1 -o RUN"
    )
    expected = "calibrail compare a.csv --score sgi --seed 3 --score NAME -o RUN-compared"
    assert next_steps.for_several(run) == expected
    assert next_steps.for_several(made_by(None)).startswith("calibrail compare DATA --score NAME")
    allowed = next_steps.for_several(
        made_by("calibrail calibrate a.csv --alpha 0.1"), " --alpha 0.2"
    )
    assert allowed == "calibrail compare a.csv --score NAME --alpha 0.2 -o RUN-compared"
    columns = made_by("calibrail calibrate a.csv --risk 'recall>=0.8' --no-text", "no texts")
    assert next_steps.for_several(columns) == (
        "calibrail compare a.csv --score-column NAME -o RUN-compared"
    )


def test_groups_of_a_drift_audit_get_thresholds_of_their_own() -> None:
    run = made_by(
        "calibrail shift a.csv --by topic --calibrate-on x --score length --alpha 0.1 -o RUN"
    )
    assert next_steps.for_groups(run) == (
        "calibrail calibrate a.csv --by topic --score length --alpha 0.1 -o RUN-by-topic"
    )
    assert next_steps.for_groups(made_by("calibrail shift a.csv --time day")) == ""


@pytest.mark.parametrize(
    ("command", "refused"),
    [("compare", next_steps.ONE_ONLY), ("calibrate", next_steps.SIDES)],
)
def test_what_is_left_out_is_what_the_other_command_does_not_take(
    command: str, refused: set[str]
) -> None:
    taken = {option for item in app.commands[command].params for option in item.opts}
    assert refused and not taken & {option.removesuffix("=") for option in refused}


def test_no_other_option_of_calibrate_is_refused_by_compare() -> None:
    taken = {
        name: {option for item in app.commands[name].params for option in item.opts}
        for name in ("calibrate", "compare")
    }
    kept = taken["calibrate"] - {option.removesuffix("=") for option in next_steps.ONE_ONLY}
    assert kept <= taken["compare"]


def test_a_column_is_turned_round() -> None:
    run = made_by(
        "calibrail calibrate a.csv --score-column x --higher hallucinated --alpha 0.1 -o RUN"
    )
    assert next_steps.turned(run) == (
        "calibrail calibrate a.csv --score-column x --alpha 0.1 --higher faithful -o RUN"
    )
    assert next_steps.turned(made_by("calibrail calibrate a.csv --score length")) == ""


def test_an_option_goes_however_its_value_stands_beside_it() -> None:
    words = ["calibrail", "calibrate", "-or5", "-o", "r6", "--output=r7", "--force", "-q"]
    assert next_steps.without_options(words, {"-o=", "--output=", "--force"}) == [
        *("calibrail", "calibrate", "-q")
    ]
