"""Does a watch say what changed, whatever the cuts, and refuse what is not its own?"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import calibrail
from calibrail import Monitor
from calibrail.errors import InputError
from calibrail.guardrail.decision import Cause
from calibrail.monitoring.history import FEATURES, Rows
from calibrail.options import WatchOptions

from .conftest import Stream

N_BEFORE, N_AFTER = 3_000, 1_500


def joined(*parts: Rows) -> Rows:
    """Return the rows of several parts, one after the other."""
    columns: dict[str, Any] = {
        item.name: np.concatenate([getattr(part, item.name) for part in parts])
        for item in fields(Rows)
        if item.name != "ref"
    }
    return Rows(**columns, ref=tuple(ref for part in parts for ref in part.ref or ()))


@pytest.fixture(scope="module")
def changed(stream: Stream) -> Rows:
    """A stream whose responses grow long after 3,000 rows, and which is in Italian in the end."""
    longer = np.random.default_rng(3).integers(400, 1_200, N_AFTER)
    return joined(
        stream(N_BEFORE),
        stream(N_AFTER, seed=1, start=N_BEFORE, response_length=longer),
        stream(800, seed=2, start=N_BEFORE + N_AFTER, language=["it"] * 800),
    )


@pytest.fixture(scope="module")
def short() -> dict[str, Any]:
    return {"reference": 600, "arl": 5_000, "seed": 4}


@pytest.fixture(scope="module")
def watched(guardrail: calibrail.Guardrail, changed: Rows, short: dict[str, Any]) -> Monitor:
    return Monitor(guardrail, **short).update(changed)


def test_an_alarm_says_what_changed_since_when_and_by_how_much(watched: Monitor) -> None:
    said = watched.traffic()
    first, *_, last = said["alarms"]
    assert said["alarm"] and said["feature"] == last["feature"]
    assert first["feature"] == "response_length" and N_BEFORE < first["row"] < N_BEFORE + 200
    since = first["since"]
    assert since["lower"]["row"] <= N_BEFORE <= since["upper"]["row"]
    assert since["lower"]["row"] <= since["row"] <= since["upper"]["row"] <= first["row"]
    assert since["time"] == calibrail_time(since["row"])
    assert first["before"]["mean"] == pytest.approx(500, abs=15)
    assert first["before"]["median"] == pytest.approx(500, abs=40)
    assert 620 < first["after"]["mean"] < 900
    assert first["e_value"] >= said["threshold"] == 2 * 5_000 * len(FEATURES)
    assert sum(first["histogram"]["before"]) == first["before"]["n"]
    assert 1 <= len(first["examples"]) <= 10
    for example in first["examples"]:
        assert since["row"] <= example["row"] <= first["row"]
        assert example["id"] == f"id-{example['row']}" and example["seq"] == example["row"]
    assert last["feature"] == "language"
    assert last["before"]["shares"]["en"] == pytest.approx(0.8, abs=0.05)
    assert last["after"]["shares"].get("other", 0.0) > 0.5


def calibrail_time(row: int) -> str:
    moment = np.datetime64(1_600_000_000 + 60 * row, "s")
    return f"{moment}Z"


def test_the_timeline_holds_each_day_once(watched: Monitor, changed: Rows) -> None:
    timeline = watched.timeline()
    assert sum(period["n"] for period in timeline) == len(changed) == watched.n
    assert sum(period["flagged"] for period in timeline) == changed.flagged.sum()
    assert sum(period["undefined"] for period in timeline) == changed.undefined.sum()
    days = [period["from"][:10] for period in timeline]
    assert days == sorted(set(days)) and len(days) == 5
    late = timeline[-2]
    start = late["row"]
    part = changed.part(start, start + late["n"])
    assert late["means"]["response_length"] == pytest.approx(part.response_length.mean())
    assert late["means"]["score"] == pytest.approx(np.nanmean(part.score))
    assert late["languages"] == {
        name: int(np.sum(part.language == name)) for name in late["languages"]
    }
    assert max(period["log_e"] for period in timeline) >= np.log(watched.traffic()["threshold"])


@given(cuts=st.lists(st.integers(0, N_BEFORE + N_AFTER + 800), max_size=6), stop=st.booleans())
@settings(max_examples=12, deadline=None)
def test_a_stream_cut_anywhere_and_resumed_has_the_bytes_of_one_run(
    guardrail: calibrail.Guardrail,
    changed: Rows,
    short: dict[str, Any],
    watched: Monitor,
    cuts: list[int],
    stop: bool,
) -> None:
    places = [0, *sorted(cuts), len(changed)]
    monitor = Monitor(guardrail, **short)
    for start, end in pairwise(places):
        monitor.update(changed.part(start, end))
        if stop:
            # Looking changes nothing, and neither does the way through a file.
            monitor.traffic()
            monitor = Monitor.restore(monitor.to_state(), guardrail)
    assert monitor.to_state() == watched.to_state()
    assert monitor.traffic() == watched.traffic()
    assert monitor.timeline() == watched.timeline()


def test_what_is_known_after_a_row_does_not_depend_on_later_ones(
    guardrail: calibrail.Guardrail, changed: Rows, short: dict[str, Any], watched: Monitor
) -> None:
    alarm = watched.traffic()["alarms"][0]
    monitor = Monitor(guardrail, **short).update(changed.part(0, alarm["row"]))
    assert not monitor.traffic()["alarm"]
    monitor.update(changed.part(alarm["row"], alarm["row"] + 1))
    assert monitor.traffic()["alarms"] == [alarm]


def test_a_state_that_is_not_its_own_is_refused(
    guardrail: calibrail.Guardrail, watched: Monitor, short: dict[str, Any]
) -> None:
    raw = watched.to_state()
    other = calibrail.calibrate("example:facts", score="novel_count", alpha=0.3).freeze()
    with pytest.raises(InputError, match=r"of the guardrail sha256:.*another folder"):
        Monitor.restore(raw, other)
    with pytest.raises(InputError, match="begun with arl=5000; got 6000"):
        Monitor.restore(raw, guardrail, WatchOptions(**{**short, "arl": 6_000}))
    assert Monitor.restore(raw, guardrail, WatchOptions(**short)).n == watched.n
    with pytest.raises(InputError, match="it was changed since"):
        Monitor.restore(raw.replace(b'"n_alarms":', b'"n_alarms": 1'), guardrail)
    for wrong in (b"", b"[]", b'{"schema":"calibrail.watch/1"}', b"\xff\xfe"):
        with pytest.raises(InputError, match="state of"):
            Monitor.restore(wrong, guardrail)


def test_a_guardrail_is_known_from_its_file(
    guardrail: calibrail.Guardrail, tmp_path: Path, watched: Monitor
) -> None:
    guardrail.save(tmp_path / "g.json")
    assert Monitor(tmp_path / "g.json").guardrail == Monitor(guardrail).guardrail
    assert Monitor.restore(watched.to_state(), tmp_path / "g.json").n == watched.n
    with pytest.raises(InputError, match="guardrail must be"):
        Monitor(3)  # type: ignore[arg-type]


def test_options_are_given_as_an_object_or_by_name(guardrail: calibrail.Guardrail) -> None:
    assert Monitor(guardrail, WatchOptions(arl=9)).options == Monitor(guardrail, arl=9).options
    with pytest.raises(InputError, match="not both"):
        Monitor(guardrail, WatchOptions(), arl=9)
    with pytest.raises(InputError, match="did you mean arl"):
        Monitor(guardrail, arll=9)  # type: ignore[call-arg]
    with pytest.raises(InputError, match="reference must be"):
        Monitor(guardrail, reference=Rows.of([1.0], [False]))


def test_a_period_of_its_own_serves_as_reference(
    guardrail: calibrail.Guardrail, stream: Stream
) -> None:
    monitor = Monitor(guardrail, reference=stream(4_001, seed=5))
    assert monitor.traffic()["reference"] == {
        "n": 4_001,
        "size": 4_001,
        "given": True,
        "complete": True,
        "row": None,
        "from": "2020-09-13T12:26:40Z",
        "to": "2020-09-16T07:06:40Z",
    }
    assert monitor.n == 0
    monitor.update(stream(400, seed=6)).update(stream(150, seed=7, chunks=[8] * 150))
    alarm = monitor.traffic()["alarms"][0]
    assert alarm["feature"] == "chunks" and 400 < alarm["row"] < 450
    resumed = Monitor.restore(monitor.to_state(), guardrail)
    assert resumed.traffic() == monitor.traffic()


def test_false_alarms_are_as_rare_as_promised(
    guardrail: calibrail.Guardrail,
) -> None:
    watches, arl, reference, rows = 300, 200, 30, 230
    alarms = 0
    for seed in range(watches):
        # Six features that are ties, rare or follow from one another.
        rng = np.random.default_rng(seed)
        score = rng.integers(0, 3, rows) / 2.0
        length = np.where(rng.random(rows) < 0.3, np.nan, 7.0 * score + rng.integers(0, 2, rows))
        score[rng.random(rows) < 0.05] = np.nan
        monitor = Monitor(guardrail, reference=reference, arl=arl, seed=seed)
        monitor.update(
            Rows.of(
                score,
                score > 0.5,
                question_length=length,
                response_length=np.nan_to_num(length) ** 2,
                chunks=rng.poisson(0.05, rows),
                language=rng.choice(["en", "de", "fr", None], rows, p=[0.7, 0.2, 0.02, 0.08]),
            )
        )
        alarms += monitor.traffic()["alarm"]
    # At most t / (2 arl) of them within t rows: more than this has a probability of 1e-4.
    share = (rows - reference) / (2 * arl)
    assert 0 < alarms <= stats.binom.ppf(1 - 1e-4, watches, share)


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_no_stream_is_too_strange(guardrail: calibrail.Guardrail, data: st.DataObject) -> None:
    n = data.draw(st.integers(0, 700))
    rng = np.random.default_rng(data.draw(st.integers(0, 1_000)))
    strange = np.array([0.0, -0.0, 5e-324, 1e308, 1.0, 1.0, np.nan])

    def numbers() -> np.ndarray:
        kinds = [strange[rng.integers(0, 7, n)], np.full(n, np.nan), np.ones(n), rng.random(n)]
        return kinds[data.draw(st.integers(0, 3))]

    score = numbers() * data.draw(st.sampled_from([1.0, -1.0]))
    names = np.array([None, "en", "zz", *(f"x{at}" for at in range(300))], object)
    rows = Rows.of(
        score,
        rng.random(n) < 0.5,
        failed=np.isnan(score) & (rng.random(n) < 0.5),
        time=np.clip(numbers(), 0.0, 1e200) * data.draw(st.sampled_from([1.0, 1e9])),
        question_length=numbers(),
        chunks=numbers(),
        language=names[rng.integers(0, data.draw(st.sampled_from([1, 2, 303])), n)],
    )
    short = {"reference": data.draw(st.integers(2, 60)), "arl": data.draw(st.integers(1, 40))}
    whole, cut = Monitor(guardrail, **short).update(rows), data.draw(st.integers(0, n))
    halves = Monitor(guardrail, **short).update(rows.part(0, cut))
    halves = Monitor.restore(halves.to_state(), guardrail).update(rows.part(cut, n))
    assert halves.to_state() == whole.to_state()
    assert sum(period["n"] for period in whole.timeline()) == n == halves.n
    json.dumps([whole.traffic(), whole.timeline()], allow_nan=False)


ALONE: dict[str, Any] = {
    "score": np.random.default_rng(8).normal(1.0, 1.0, 900),
    "undefined": np.random.default_rng(8).random(900) < 0.3,
    "question_length": np.random.default_rng(8).poisson(70, 900),
    "response_length": np.random.default_rng(8).integers(300, 700, 900),
    "chunks": [6] * 900,
    "language": ["en"] * 700 + ["el"] * 200,
}


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_raises_an_alarm_when_it_alone_moves(
    guardrail: calibrail.Guardrail, stream: Stream, feature: str
) -> None:
    still = stream(4_000, seed=9)
    moved = stream(900, seed=10, start=4_000, **{feature: ALONE[feature]})
    monitor = Monitor(guardrail).update(still)
    assert not monitor.traffic()["alarm"]
    assert monitor.update(moved).traffic()["alarms"][0]["feature"] == feature


def test_what_the_reference_does_not_have_is_not_watched(guardrail: calibrail.Guardrail) -> None:
    score = np.random.default_rng(0).random(900)
    bare = Monitor(guardrail, reference=500).update(Rows.of(score, score > 0.5))
    said = bare.traffic()
    assert said["watched"] == ["score", "undefined"]
    assert said["unwatched"] == list(FEATURES[2:])
    assert said["threshold"] == 2 * 100_000 * 2
    # What comes later for the first time is not held against anything.
    bare.update(Rows.of(score, score > 0.5, chunks=[3] * 900, language=["en"] * 900))
    assert bare.traffic()["watched"] == ["score", "undefined"]


def test_decisions_are_watched_with_what_they_are_about(
    guardrail: calibrail.Guardrail,
) -> None:
    examples = list(calibrail.read("example:facts"))[:60]
    decisions = guardrail.decide(examples)
    rows = Rows.decided(decisions, examples)
    monitor = Monitor(guardrail).update(decisions, examples)
    assert monitor.to_state() == Monitor(guardrail).update(rows).to_state()
    assert rows.flagged.tolist() == [item.flagged for item in decisions]
    assert rows.response_length.tolist() == [len(item.response) for item in examples]
    assert rows.chunks.tolist() == [len(item.contexts) for item in examples]
    lost = replace(
        decisions[0], score=None, p_value=None, reason="", cause=Cause("detector_failed", "E")
    )
    assert Rows.decided([lost]).failed.tolist() == [True]
    with pytest.raises(InputError, match="one per decision"):
        monitor.update(decisions, examples[:3])
    with pytest.raises(InputError, match="Rows or decisions"):
        monitor.update([0.5])  # type: ignore[list-item]
    with pytest.raises(InputError, match="examples go with decisions"):
        monitor.update(rows, examples)


def test_what_it_says_can_be_written_as_strict_json(watched: Monitor) -> None:
    json.dumps([watched.traffic(), watched.timeline()], allow_nan=False)
    assert repr(watched).startswith("Monitor(5,300 answers of sha256:")


def test_the_state_stays_below_a_mebibyte_at_its_largest(
    guardrail: calibrail.Guardrail, stream: Stream
) -> None:
    refs = [("20260101T000000-7-0a0b0c0d", row, "i" * 300) for row in range(9_000)]
    long = stream(9_000, ref=refs, language=[f"l{row % 60}" for row in range(9_000)])
    # What fixes the bins of the largest reference that a stream gives, one by one.
    begun = Monitor(guardrail, reference=20_000).update(long.part(0, 4_999))
    assert begun.traffic()["unwatched"] == [] and len(begun.to_state()) < 2**20
    full = Monitor(guardrail, reference=2_000).update(long)
    traffic = full._traffic
    assert traffic.history is not None
    # As after 100 million rows, a hundred alarms and more than a year and a half of days.
    held = traffic.history.blocks()
    part = held.part(slice(len(held.row) - 20, None))
    big = replace(part, counts=part.counts + 10**5, totals=part.totals + 0.1)
    traffic.history.levels += [big] * 13
    alarm = Monitor(guardrail, reference=600, arl=100).update(long.part(0, 2_000))
    alarm.update(stream(900, score=np.random.default_rng(0).normal(3, 1, 900), ref=refs[:900]))
    traffic.alarms = (alarm.traffic()["alarms"] * 100)[:100]
    full._timeline.periods = full._timeline.periods[:1] * 512
    assert len(traffic.alarms) == 100 and len(full.to_state()) < 2**20
