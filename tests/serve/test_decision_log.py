"""The log of the real process, where nothing but a limit on the size of its files is needed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from calibrail.guardrail.decision_log.verify import verify
from tests.guardrail.decision_log.logs import lines
from tests.serve.conftest import ANSWER
from tests.serve.process import Service, until

resource = pytest.importorskip("resource")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prlimit is Linux's")

#: Room for some lines.
ROOM = 12_000
HOSTILE = ["two\nlines\r\u2028\x00", '"}, {"id": "', "é" * 1500, "\u202eleft", "\\ud800"]


def test_without_room_nothing_is_told_and_with_room_the_chain_goes_on(
    surface: Path, tmp_path: Path
) -> None:
    log = tmp_path / "log"

    def limit() -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))

    with Service(surface, "--log", log, "--log-text", before=limit) as service:
        given = []

        def decided(id: str) -> bool:
            answer = service.check({**ANSWER, "id": id})
            if answer.status == 200:
                assert answer.json()["id"] == id
                given.append(id)
                return True
            assert answer.status == 503 and answer.json()["type"].endswith("log-unavailable")
            assert "outcome" not in answer.json() and int(answer.headers["retry-after"]) > 0
            return False

        assert [decided(id) for id in HOSTILE] == [True] * len(HOSTILE)
        assert not all([decided(str(number)) for number in range(20)])
        assert service.ask("GET", "/readyz").status == 503
        batch = {"items": [{**ANSWER, "id": f"b{number}"} for number in range(20)]}
        assert service.ask("POST", "/v1/check/batch", batch).status == 503
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        until(lambda: decided("with room"), "room")
        assert service.ask("GET", "/readyz").status == 200
        assert service.terminate() == 0
    check = verify([log])
    assert (check.verdict, check.n_notes, check.chains[0].closed) == ("whole", 0, True)
    kept = [line for line in lines(log) if line.get("kind") not in ("opened", "closed")]
    # Each answer that was given, in order, and none that was not.
    assert [line["id"] for line in kept] == given
    assert all(line["response"] == ANSWER["response"] for line in kept)
    assert json.dumps(kept[0]["contexts"]) == json.dumps(ANSWER["contexts"])
