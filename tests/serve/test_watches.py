"""What the metrics say of a watch, and what becomes of them where its folder is damaged."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.reference_pages import filled
from calibrail.errors import InputError
from calibrail.guardrail import Guardrail
from calibrail.options import ServeOptions
from calibrail.serve.guardrails import Guardrails
from calibrail.serve.service import Service
from calibrail.serve.watch_status import Statuses, deciding_folder, require_writable
from tests.serve.conftest import ANSWER
from tests.serve.watch import STATUS

Visiting = Callable[..., None]


@pytest.fixture
def watched(surface: Path, tmp_path: Path) -> tuple[Statuses, Path]:
    """The statuses of one guardrail, and the folder of its watch."""
    guardrails = Guardrails({"faq": surface}, Guardrail.load)
    statuses = Statuses(tmp_path / "watch", guardrails)
    statuses.read()
    folder = deciding_folder(tmp_path / "watch", "faq")
    assert folder is not None
    return statuses, folder


def samples(statuses: Statuses) -> dict[str, float]:
    return {
        " ".join([sample.name.removeprefix("calibrail_watch_"), *sample.labels.values()]): value
        for family in statuses.collect()
        for sample in family.samples
        for value in [sample.value]
    }


def test_metrics_say_what_the_status_says(watched: tuple[Statuses, Path]) -> None:
    statuses, folder = watched
    digest = Guardrail.load(folder / "guardrail.json").config.digest
    assert folder.name == digest.removeprefix("sha256:")[:12]
    assert samples(statuses) == {"updated_timestamp_seconds faq": 0.0}
    (folder / "status.json").write_text(json.dumps({**STATUS, "guardrail": digest}))
    os.utime(folder / "status.json", (5, 77))
    statuses.read()
    assert samples(statuses) == {
        **{"rows_total faq": 1200, "traffic_alarms_total faq": 1, "traffic_alarm faq": 1},
        **{"log_e faq score": 1.5, "log_e faq language": -2.0},
        "log_e_alarm faq": pytest.approx(13.8155, abs=1e-3),
        **{"promise_broken faq": 1, "promise_state faq broken": 1, "promise_state faq kept": 0},
        **{"promise_state faq undecided": 0, "lately_alarm faq": 0},
        **{"coverage faq lower": 0.5, "coverage faq upper": 0.7, "fpr faq upper": 1.0},
        **{"prevalence faq lower": 0.02, "prevalence faq upper": 0.2},
        **{"labels faq": 80, "labels_pending faq": 4, "log_whole faq": 0},
        "updated_timestamp_seconds faq": 77,
    }
    (folder / "status.json").unlink()
    statuses.read()
    assert samples(statuses) == {"updated_timestamp_seconds faq": 0.0}


@pytest.mark.parametrize(
    "status",
    [
        *("", "[]", '{"schema": 3}', "\xff", '{"schema": "calibrail.report/1"}', "[" * 10**5),
        '{"schema": "calibrail.watch/1", "guardrail": "sha256:other", "n": 5}',
        '{"schema": "calibrail.watch/1", "guardrail": DIGEST, "n": 1' + "0" * 400 + "}",
        '{"schema": "calibrail.watch/1", "guardrail": DIGEST, "traffic": {"threshold": -1}}',
        '{"schema": "calibrail.watch/1", "guardrail": DIGEST, "n": "many", "traffic": [1], '
        '"promise": {"state": "?", "coverage": {"lower": {}}}, "log": null}',
    ],
    ids=lambda status: status[:24],
)
def test_a_status_that_is_none_costs_no_metric(
    watched: tuple[Statuses, Path], status: str, caplog: pytest.LogCaptureFixture
) -> None:
    statuses, folder = watched
    digest = json.dumps(Guardrail.load(folder / "guardrail.json").config.digest)
    (folder / "status.json").write_text(status.replace("DIGEST", digest), encoding="latin-1")
    for _ in range(3):
        statuses.read()
    assert samples(statuses).keys() == {"updated_timestamp_seconds faq"}
    assert len(caplog.records) <= 1


def test_another_guardrail_that_takes_over_has_a_watch_of_its_own(
    surface: Path, column: Path, tmp_path: Path
) -> None:
    root, path = tmp_path / "watch", tmp_path / "g.json"
    path.write_bytes(surface.read_bytes())
    guardrails = Guardrails({"faq": path}, Guardrail.load)
    statuses = Statuses(root, guardrails)
    statuses.read()
    first = deciding_folder(root, "faq")
    path.write_bytes(column.read_bytes())
    # Not taken over yet, so not watched.
    statuses.read()
    assert deciding_folder(root, "faq") == first
    assert guardrails.reload("faq") is None
    statuses.read()
    second = deciding_folder(root, "faq")
    assert first is not None and second is not None and second != first
    assert (first / "guardrail.json").read_bytes() == surface.read_bytes()
    assert (second / "guardrail.json").read_bytes() == column.read_bytes()
    path.write_text("damaged")
    assert guardrails.reload("faq") is not None
    statuses.read()
    assert deciding_folder(root, "faq") == second


@pytest.mark.parametrize("said", ["", "[]", "{}", f'{{"guardrail": "sha256:{"../" * 21}a"}}'])
def test_what_no_service_wrote_is_not_watched(tmp_path: Path, said: str) -> None:
    assert deciding_folder(tmp_path, "faq") is None
    (tmp_path / "faq").mkdir()
    (tmp_path / "faq" / "deciding.json").write_text(said)
    assert deciding_folder(tmp_path, "faq") is None


def test_a_folder_that_cannot_be_written_is_refused_before_anything_begins(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="nothing can be written there"):
        require_writable(tmp_path / "file" / "watch")
    with pytest.raises(InputError, match="is about the decision log; name its folder"):
        ServeOptions(monitor=tmp_path)
    with pytest.raises(InputError, match="is about the watch; name its folder: monitor="):
        ServeOptions(log=tmp_path, base_rate=0.1)


def test_a_service_decides_whatever_becomes_of_the_folder_of_its_watch(
    visit: Visiting, surface: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root = tmp_path / "watch"
    root.write_text("no folder")

    async def go(client: Any, service: Service) -> None:
        statuses = Statuses(root, service.guardrails)
        service.metrics.show(statuses)
        statuses.read()
        statuses.read()
        assert (await client.post("/v1/check", json=ANSWER)).json()["outcome"] == "pass"
        assert (await client.get("/healthz")).status_code == 200
        shown = (await client.get("/metrics")).text
        assert 'calibrail_watch_updated_timestamp_seconds{guardrail="surface"} 0.0' in shown
        root.unlink()
        statuses.read()
        assert deciding_folder(root, "surface") is not None

    visit(go, surface)
    assert caplog.text.count("cannot be read or begun") == 1


def test_the_page_names_every_metric_of_a_watch_with_its_labels(
    watched: tuple[Statuses, Path], repository: Path
) -> None:
    statuses, folder = watched
    digest = Guardrail.load(folder / "guardrail.json").config.digest
    (folder / "status.json").write_text(json.dumps({**STATUS, "guardrail": digest}))
    statuses.read()
    there = {
        sample.name: set(sample.labels) for item in statuses.collect() for sample in item.samples
    }
    page = filled((repository / "docs" / "http-api.md").read_text())
    rows = re.findall(r"^\| (`calibrail_watch_[^|]+) \| ?([^|]*) \|", page, re.MULTILINE)
    shown = {
        name: set(re.findall(r"`(\w+)`", labels))
        for names, labels in rows
        for name in re.findall(r"`(calibrail_\w+)`", names)
    }
    assert shown == there
