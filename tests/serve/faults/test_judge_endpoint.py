from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from calibrail import Example, ReadOptions, calibrate
from calibrail.guardrail import Guardrail
from tests.chat_server import ChatServer, key_of, script, verdicts
from tests.serve.faults.kept import is_failure, nothing_is_invented
from tests.serve.load import Load
from tests.serve.process import Service

Bodies = Iterator[dict[str, Any]]

#: What an endpoint may do instead of answering.
DEAD = ("500", "503", "401", "404", "429_quota", "refused_line", "cut")
SLOW = ("slow", "drip")
LYING = (
    *("swapped", "invalid_json", "html", "no_message", "empty_choices"),
    *("wrong_logprobs", "nan_logprobs", "other_tokens", "no_logprobs"),
)


def test_an_endpoint_that_is_dead_slow_or_lies_lets_nothing_pass(
    bodies: Bodies, tmp_path: Path
) -> None:
    path, log = tmp_path / "judge.json", tmp_path / "log"
    with ChatServer(verdicts(lambda text: len(text) % 97 / 97), served="judge-1") as judge:
        # The policy under which a failure that counted as undefined would pass.
        run = calibrate(
            "example:facts",
            f"judge:model=judge,mode=logprob,base_url={judge.url}",
            alpha=0.3,
            undefined="pass",
            reading=ReadOptions(limit=200),
        )
        run.freeze().save(path)
        guardrail = Guardrail.load(path)
        faults = [*DEAD, *SLOW, *LYING]
        failing = dict(zip(islice(map(_hashable, bodies), len(faults)), faults, strict=True))
        healthy = list(islice(bodies, 20))
        by_key = {_key(guardrail, dict(body)): fault for body, fault in failing.items()}
        with Service(path, "--log", log, "--deadline", 4, "--log-sync") as service:
            judge.faults = lambda key, attempt: by_key.get(key)
            sent = [{**dict(body), "contexts": [*dict(body)["contexts"]]} for body in failing]
            exchanges = Load(service.port, iter([*sent, *healthy]), connections=40).run()
            for exchange in exchanges:
                if exchange.sent in sent:
                    assert exchange.answer is not None
                    is_failure(exchange.answer, guardrail)
            # One that answers under another name was not calibrated.
            judge.served = "judge-2"
            renamed = Load(service.port, islice(bodies, 5), connections=5).run()
            for exchange in renamed:
                assert exchange.answer is not None
                is_failure(exchange.answer, guardrail)
            judge.served, judge.faults = "judge-1", script()
            # It is back, and nothing of what failed is remembered.
            back = [{**body, "id": f"{body['id']}-again"} for body in sent]
            recovered = Load(service.port, iter(back), connections=5).run()
            n_recovered, _ = nothing_is_invented(recovered, guardrail)
            assert n_recovered == len(faults)
            assert any(x.answer and x.answer.json()["score"] is not None for x in recovered)
            assert service.terminate() == 0, service.stderr
        everything = [*exchanges, *renamed, *recovered]
        decided, refused = nothing_is_invented(everything, guardrail, log)
        assert (decided, refused) == (len(everything), 0)
        assert "Traceback" not in service.stderr


def _hashable(body: dict[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (name, tuple(value) if isinstance(value, list) else value) for name, value in body.items()
    )


def _key(guardrail: Guardrail, body: dict[str, Any]) -> str:
    example = Example(body["question"], tuple(body["contexts"]), body["response"])
    score: Any = guardrail.score
    (request,) = score.inputs(example)
    return key_of(request.parameters())
