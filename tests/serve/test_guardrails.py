"""A new file takes over whole, or not at all."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from calibrail import calibrate
from calibrail.errors import InputError
from calibrail.guardrail import Guardrail
from calibrail.guardrail.file import content_digest, render
from calibrail.pipelines.card import GuardrailCard
from calibrail.serve import guardrails
from calibrail.serve.guardrails import guardrail_files
from calibrail.serve.process import reload
from calibrail.serve.service import Service
from tests.serve.conftest import ANSWER

Visiting = Callable[..., None]


def test_names_are_given_or_those_of_the_files() -> None:
    assert guardrail_files(["a.json", "b=c/d.json"]) == {"a": Path("a.json"), "b": Path("c/d.json")}
    with pytest.raises(InputError, match="stands for"):
        guardrail_files(["x/g.json", "y/g.json"])
    with pytest.raises(InputError, match="name it"):
        guardrail_files(["was ist das.json"])


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("other") / "other.json"
    calibrate("example:facts", "novelty", alpha=0.3).freeze().save(path)
    return path


def test_a_changed_file_takes_over_and_a_bad_one_does_not(
    visit: Visiting,
    surface: Path,
    other: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "g.json"
    path.write_bytes(surface.read_bytes())

    async def go(client: Any, service: Service) -> None:
        async def digest() -> tuple[str, Any]:
            content = (await client.get("/v1/guardrail")).json()
            return content["guardrail"]["digest"], content["refused"]

        guardrails = service.guardrails
        first, _ = await digest()
        assert not guardrails.files["g"].changed()
        path.write_bytes(other.read_bytes()[:-100])
        # A file that is still being written is left until it rests.
        assert not guardrails.files["g"].changed()
        assert guardrails.files["g"].changed()
        await reload(service, ["g"])
        assert not guardrails.files["g"].changed()
        now, refused = await digest()
        assert now == first
        assert "name the file" in refused["reason"]
        assert "refused" in caplog.text and first in caplog.text
        assert (await client.post("/v1/check", json=ANSWER)).status_code == 200
        os.unlink(path)
        await reload(service)
        assert (await digest())[0] == first
        path.write_bytes(other.read_bytes())
        monkeypatch.setattr(Guardrail, "endpoints", ("https://judge",))
        await reload(service)
        now, refused = await digest()
        assert now != first
        assert refused is None
        assert (await client.post("/v1/check", json=ANSWER)).status_code == 200
        metrics = (await client.get("/metrics")).text
        assert 'calibrail_reloads_total{guardrail="g",result="refused"} 2.0' in metrics
        assert 'calibrail_reloads_total{guardrail="g",result="swapped"} 1.0' in metrics
        info = r'calibrail_guardrail_info\{digest="([^"]+)",guardrail="g",verdict="\w+"\} (\d)'
        assert dict(re.findall(info, metrics)) == {first: "0", now: "1"}
        for name in ("coverage", "fpr"):
            figure = getattr(guardrails.get("g").guardrail.config.headline, name)
            for bound in ("lower", "upper"):
                sample = f'calibrail_guardrail_{name}{{bound="{bound}",guardrail="g"}}'
                assert f"{sample} {figure[bound]}\n" in metrics
        # Scores are counted in the buckets of what decides.
        threshold = guardrails.get("g").guardrail.calibration.threshold
        assert f'calibrail_score_bucket{{guardrail="g",le="{threshold}"}} ' in metrics
        assert f"{now}; decides from now on" in caplog.text
        assert "g sends the answers to https://judge" in caplog.text

    visit(go, path)


def test_a_file_writes_no_line_of_its_own_to_the_log(
    visit: Visiting, surface: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "g.json"
    path.write_bytes(surface.read_bytes())

    async def go(_: Any, service: Service) -> None:
        content = json.loads(path.read_bytes())
        content["data"]["\x1b[2J\nERROR all is well\x1b[0m"] = 1
        path.write_bytes(render({**content, "digest": content_digest(content)}))
        await reload(service, ["g"])

    visit(go, path)
    assert "g.json" in caplog.text and "\x1b" not in caplog.text
    assert "\ufffd[2J\ufffdERROR all is well" in caplog.text
    assert len(caplog.text.splitlines()) == 1
    caplog.clear()
    try:
        raise ValueError("\x1b[2J\nERROR all is well")
    except ValueError:
        logging.getLogger("calibrail.serve").exception("%s", "\x1b")
    _, *further = caplog.text.splitlines()
    assert "\x1b" not in caplog.text and "  ERROR all is well" in further
    assert all(line.startswith((" ", "Traceback ")) for line in further)


def test_a_file_that_reads_other_fields_takes_over_and_says_so_loudly(
    visit: Visiting,
    surface: Path,
    column: Path,
    other: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "g.json"
    path.write_bytes(surface.read_bytes())

    async def go(client: Any, service: Service) -> None:
        path.write_bytes(other.read_bytes())
        await reload(service)
        assert "reads other fields" not in caplog.text
        path.write_bytes(column.read_bytes())
        await reload(service)
        (said,) = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "reads other fields" in said.getMessage()
        assert "must have /columns/risk (before: /contexts, /response)" in said.getMessage()
        refused = await client.post("/v1/check", json=ANSWER)
        assert refused.json()["errors"][0]["pointer"] == "/columns/risk"
        path.write_bytes(surface.read_bytes())

    visit(go, path)


def test_the_certificate_is_given_as_json_page_and_markdown(visit: Visiting, surface: Path) -> None:
    async def go(client: Any, _: Service) -> None:
        content = (await client.get("/v1/guardrail")).json()
        assert content["name"] == "surface"
        assert content["file"] == {
            "name": "surface.json",
            "sha256": sha256(surface.read_bytes()).hexdigest(),
        }
        assert content["guardrail"]["headline"]["verdict"]
        assert "scores" not in content["guardrail"]["calibration"]
        for kind, media in (("html", "text/html"), ("md", "text/markdown")):
            said = await client.get(f"/v1/guardrail?format={kind}")
            assert said.headers["content-type"].startswith(media)
            assert "novelty" in said.text
        assert (await client.get("/v1/guardrail?format=pdf")).status_code == 422

    visit(go, surface)


def test_the_card_of_a_guardrail_is_made_once_beside_the_loop(
    visit: Visiting, surface: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = list[tuple[str, threading.Thread]]()

    def noting(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any) -> Any:
            made.append((name, threading.current_thread()))
            return work(*given)

        return noted

    monkeypatch.setattr(guardrails, "card", noting("card", guardrails.card))
    for name in ("html", "markdown", "to_dict"):
        monkeypatch.setattr(GuardrailCard, name, noting(name, getattr(GuardrailCard, name)))

    async def go(client: Any, service: Service) -> None:
        kinds = ("json", "html", "md") * 3
        addresses = [f"/v1/guardrail?format={kind}" for kind in kinds]
        answers = await asyncio.gather(*map(client.get, addresses))
        assert [answer.status_code for answer in answers] == [200] * 9
        assert [name for name, _ in made] == ["card", "to_dict", "html", "markdown"]
        assert threading.current_thread() not in [thread for _, thread in made]
        # What took over has a card of its own.
        await reload(service)
        await client.get(addresses[0])
        assert len(made) == 8

    visit(go, surface)
