"""Does every printed end of an interval lie on the outer side of the number it stands for?"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrail
from calibrail.conformal import (
    ClassCounts,
    calibrate_threshold,
    certify_counts,
    clopper_pearson,
    joint_certificate,
)
from calibrail.conformal.certificate import certify_trimming
from calibrail.formatting import (
    ceiling_percent,
    floor_percent,
    lower_percent,
    outward,
    upper_percent,
    upward,
)
from calibrail.options import Promise, Requirement
from calibrail.report import text
from calibrail.report.documents import certify
from calibrail.report.documents.measures import shown_end
from calibrail.report.markdown import render_markdown
from calibrail.report.messages import environment, spell, spell_reasons

SHARES = st.floats(0.0, 1.0)


def numbers(shown: str) -> list[float]:
    return [float(item) for item in re.findall(r"-?\d+(?:\.\d+)?", shown)]


@given(SHARES, SHARES)
def test_ends_are_rounded_outwards(one: float, other: float) -> None:
    lower, upper = min(one, other), max(one, other)
    value = {"estimate": lower, "lower": lower, "upper": upper}
    assert float(lower_percent(lower)[:-1]) / 100 <= lower + 1e-15
    assert float(upper_percent(upper)[:-1]) / 100 >= upper - 1e-15
    for shown, scale in (
        (text.interval(value), 100.0),
        (text.bounds(value), 1.0),
        (text.share_with_bounds(value).partition("(")[2], 100.0),
    ):
        low, high = numbers(shown)
        assert low <= scale * lower + 1e-12 and high >= scale * upper - 1e-12, shown


@given(SHARES)
def test_what_is_required_is_never_rounded_inwards(limit: float) -> None:
    (least,), (most,) = (numbers(text.required(sign, limit)) for sign in (">=", "<="))
    assert least / 100 <= limit + 1e-12 and most / 100 >= limit - 1e-12


def test_no_limit_is_rounded_to_the_nearest() -> None:
    names = (
        "limit|level|least|most|required|asked|alpha|beta|delta|confidence|power|min_|max_|lower|"
        "upper"
    )
    inwards = re.compile(rf"(?:^|[^_\w])percent\([^)]*(?:{names})|(?:{names})\w* \| percent")
    package = Path(calibrail.__file__).parent
    rooms = [*package.rglob("*.py"), *package.rglob("*.toml")]
    found = {path.name: inwards.findall(path.read_text(encoding="utf-8")) for path in rooms}
    assert len(found) > 200
    assert {name for name, lines in found.items() if lines} == set()


@given(st.floats(-10.0, 10.0), st.integers(0, 5))
def test_any_number_of_digits_lies_outside(value: float, digits: int) -> None:
    low, high = (float(outward(value, digits, upper=upper)) for upper in (False, True))
    assert low <= value <= high
    assert high - low <= 1.001 * 10.0**-digits


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 400), st.integers(1, 400), st.data())
def test_a_verdict_never_says_more_than_was_shown(m: int, n: int, data: st.DataObject) -> None:
    counts = ClassCounts(data.draw(st.integers(0, m)), m, data.draw(st.integers(0, n)), n)
    made = certify_counts(counts, Requirement(0.3, 0.7))
    if made.verdict == "certified":
        ends_shown = [shown_end(name, made.to_dict()) for name in ("coverage", "fpr")]
        caught, alarms = numbers(" ".join(ends_shown))
        # The one end of each that certifies errs with 5 %: that of an interval at 90 %.
        ends = [clopper_pearson(bound.count, bound.n, 0.9) for bound in (made.coverage, made.fpr)]
        # So nothing that is shown contradicts a limit that is kept.
        assert caught >= 70.0 and alarms <= 30.0
        assert caught <= 100 * ends[0][0] + 1e-9
        assert alarms >= 100 * ends[1][1] - 1e-9


EPS = 1e-11
INTERVAL = re.compile(r"([\d.]+) to ([\d.]+)%?|between ([\d.]+)% and ([\d.]+)%")


@settings(deadline=None, max_examples=25)
@given(st.integers(20, 400), st.floats(0.5, 0.999), st.floats(0.05, 0.95), st.data())
def test_what_is_printed_of_a_certificate_holds_all_that_it_stands_for(
    n: int, confidence: float, required: float, data: st.DataObject
) -> None:
    counts = ClassCounts(data.draw(st.integers(0, n)), n, data.draw(st.integers(0, n)), n)
    limits = Requirement(data.draw(st.floats(0.05, 0.95)), required, confidence, min_kept=0.4)
    plain, shares = replace(limits, min_kept=None), [0.2, 0.9, 1.0] * (n // 3)
    pac = calibrate_threshold(range(n), Promise(0.3, "pac", 0.2))
    kinds = {
        "counts": certify_counts(counts, plain),
        "pac": joint_certificate(pac, counts, replace(plain, min_coverage=0.7)),
        "alone": joint_certificate(pac, replace(counts, caught=0, n_hallucinated=0), plain),
        "sentences": certify_trimming(counts, shares, limits),
    }
    for kind, made in kinds.items():
        region, content = made.region, made.to_dict() | {"by_group": None, "warnings": ()}
        assert region is not None
        page = (
            render_markdown(certify.document(spell_reasons(content)))
            if kind == "counts"
            else spell(made.reason)
        )
        exact = [region.coverage, region.fpr, *([region.kept] if region.kept else [])]
        for match in INTERVAL.finditer(page):
            low, high = (float(end) / 100 for end in match.groups() if end)
            inside = [low <= item.lower + EPS and item.upper <= high + EPS for item in exact]
            assert any(inside), page
        for level in re.findall(r"with ([\d.]+)% confidence", page, re.IGNORECASE):
            stated = confidence, made.confidence, region.confidence, 0.8, (1 + confidence) / 2
            assert any(-EPS < item - float(level) / 100 < 0.001 for item in stated), (level, page)
        if made.verdict == "certified":
            ends = re.findall(r"at (least|most) ([\d.]+)%", spell(made.reason))[-len(exact) :]
            if kind != "sentences":
                assert float(ends[0][1]) / 100 <= made.coverage_at_least + EPS
                assert float(ends[1][1]) / 100 >= made.fpr_at_most - EPS


@given(SHARES)
def test_what_is_stated_is_never_more_than_there_is(value: float) -> None:
    assert float(floor_percent(value)[:-1]) / 100 <= value + 1e-12
    assert float(ceiling_percent(value)[:-1]) / 100 >= value - 1e-12
    assert float(upward(value)) >= value * (1 - 1e-11)
    if value >= 0.001:
        assert float(text.p_value(value)[4:]) >= value * (1 - 1e-11)


def test_errors_that_floats_add_are_no_part_of_a_level() -> None:
    # Three quarters of 5 % at the first look, of what is left at the second.
    assert [floor_percent(1.0 - 0.05 * share) for share in (0.75, 0.1875)] == ["96.2%", "99%"]
    assert [ceiling_percent(0.05 * share) for share in (0.75, 0.1875)] == ["3.8%", "1%"]
    assert (ceiling_percent(1.0 - 0.95), floor_percent(1.0 - 0.1)) == ("5%", "90%")


@pytest.mark.parametrize(
    ("value", "low", "high"), [(0.916656, "91.6%", "91.7%"), (0.29, "29%", "29%")]
)
def test_a_bound_that_needs_no_more_digits_is_itself(value: float, low: str, high: str) -> None:
    filters = environment().filters
    assert (filters["lower_percent"](value), filters["upper_percent"](value)) == (low, high)
