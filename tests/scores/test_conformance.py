from __future__ import annotations

import pytest

from calibrail.scores import BASELINES, build, build_column, parse_specs
from calibrail.testing import check_score


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_conform(name: str) -> None:
    check_score(build(parse_specs(name)[0]), polarity=name != "length")


@pytest.mark.parametrize("spec", ["sgi", "sgi:context=closest"])
def test_sgi_conforms(spec: str) -> None:
    check_score(build(parse_specs(spec)[0]), polarity=False)


@pytest.mark.parametrize("spec", ["rad", "rad:weighting=question"])
def test_rad_conforms(spec: str) -> None:
    check_score(build(parse_specs(spec)[0]))


def test_tfg_conforms() -> None:
    check_score(build(parse_specs("tfg:gamma=0.5")[0]), huge=20_000)


def test_a_column_conforms() -> None:
    check_score(build_column("detector", "faithful"), polarity=False, columns={"detector": 0.25})
