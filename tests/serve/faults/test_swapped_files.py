from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from shutil import copyfile
from types import SimpleNamespace
from typing import Any

import pytest

from calibrail import calibrate
from calibrail.guardrail import Guardrail
from calibrail.guardrail.signing import key_id, make_keys, read_public_key, signature_path
from tests.command_line import calibrail
from tests.serve.faults.kept import decides_as_ever, nothing_is_invented, verified
from tests.serve.load import Load
from tests.serve.process import Service, until

Bodies = Iterator[dict[str, Any]]
GOLDEN = Path(__file__).parents[2] / "guardrail" / "golden"


@pytest.fixture(scope="module")
def stricter() -> Guardrail:
    return calibrate("example:facts", "novelty", alpha=0.1).freeze()


def _reloads(service: Service, result: str) -> float:
    return service.metric(f'calibrail_reloads_total{{guardrail="faq",result="{result}"}}')


def _put(raw: bytes, path: Path) -> None:
    """Put another file in the place of one, whole."""
    beside = path.with_suffix(".new")
    beside.write_bytes(raw)
    beside.replace(path)


def test_what_must_not_decide_never_does(
    guardrail: Guardrail,
    stricter: Guardrail,
    bodies: Bodies,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One process meets every bad file under load, and then a good one."""
    # All are signed in one second: none is older than another, however slow the machine is.
    now = time.time()
    monkeypatch.setattr("calibrail.guardrail.file.time", SimpleNamespace(time=lambda: now))
    path, log = tmp_path / "faq.json", tmp_path / "log"
    private, others = tmp_path / "key.pem", tmp_path / "other.pem"
    key, its_key = (make_keys(name)[0] for name in (private, others))
    signed, foreign = tmp_path / "signed.json", tmp_path / "foreign.json"
    stricter.save(signed, sign=private)
    stricter.save(foreign, sign=others)
    guardrail.save(path, sign=private)
    good, envelope = path.read_bytes(), signature_path(path).read_bytes()
    new, its_envelope = signed.read_bytes(), signature_path(signed).read_bytes()
    flipped = bytearray(new)
    flipped[len(new) // 2] ^= 1
    bad = {
        "corrupt": (bytes(flipped), its_envelope),
        "half written": (new[: len(new) // 2], its_envelope),
        "empty": (b"", its_envelope),
        "unsigned": (new, None),
        "with the signature of another file": (new, envelope),
        "signed by somebody else": (new, signature_path(foreign).read_bytes()),
        "of an older schema, unsigned": ((GOLDEN / "1-words.json").read_bytes(), None),
        "with half a signature": (new, its_envelope[: len(its_envelope) // 2]),
    }
    trusted = key_id(read_public_key(key))
    with Service(f"faq={path}", "--trusted", key, "--log", log) as service:
        assert f"signed by the key {trusted}; 16 probe answers agree; sha256:" in service.stderr
        # Keys are read once: whose file stands there later is trusted by nobody.
        copyfile(its_key, key)
        exchanges = []
        for case, (raw, signature) in bad.items():
            n_refused = _reloads(service, "refused")

            def swap(
                _: Load, raw: bytes = raw, signature: bytes | None = signature, n: float = n_refused
            ) -> None:
                if signature is None:
                    signature_path(path).unlink()
                else:
                    _put(signature, signature_path(path))
                _put(raw, path)
                service.process.send_signal(signal.SIGHUP)
                until(lambda: _reloads(service, "refused") > n, "refused", lambda: service.stderr)

            exchanges += Load(service.port, islice(bodies, 40), connections=4).run(swap)
            known = service.ask("GET", "/v1/guardrail").json()
            assert known["refused"]["reason"], case
            assert guardrail.config.digest in json.dumps(known), case
            assert "refused" in service.stderr
        n_refused = _reloads(service, "refused")
        os.unlink(path)
        service.process.send_signal(signal.SIGHUP)
        until(lambda: _reloads(service, "refused") > n_refused, "refused again")
        assert _reloads(service, "swapped") == 0
        # None of them has decided about anything.
        n_decided, n_refusals = nothing_is_invented(exchanges, guardrail, log)
        assert (n_decided, n_refusals) == (40 * len(bad), 0)
        decides_as_ever(service, guardrail, {**next(bodies), "id": "by the old one"})

        def put_the_new_one(_: Load) -> None:
            copyfile(signature_path(signed), signature_path(path))
            copyfile(signed, path)
            until(lambda: _reloads(service, "swapped") >= 1, "swapped", lambda: service.stderr)

        more = Load(service.port, islice(bodies, 400), connections=4).run(put_the_new_one)
        assert nothing_is_invented(more, [guardrail, stricter], log) == (400, 0)
        decides_as_ever(service, stricter, {**next(bodies), "id": "by the new one"})
        assert f"{stricter.config.digest}; decides from now on" in service.stderr
        # An older one that is signed may come back: every line says whose decision it is.
        _put(envelope, signature_path(path))
        _put(good, path)
        until(lambda: _reloads(service, "swapped") >= 2, "swapped back", lambda: service.stderr)
        decides_as_ever(service, guardrail, {**next(bodies), "id": "by the old one again"})
        assert service.terminate() == 0
    lines = verified(log)
    digests = {name: lines[name][0]["guardrail"] for name in lines if name.startswith("by ")}
    assert digests == {
        "by the old one": guardrail.config.digest,
        "by the new one": stricter.config.digest,
        "by the old one again": guardrail.config.digest,
    }


def test_a_bad_file_does_not_start(guardrail: Guardrail, tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    guardrail.save(path)
    public = make_keys(tmp_path / "key.pem")[0]
    raw = path.read_bytes()
    for content, options in ((raw[:-1], []), (raw, ["--trusted", public])):
        path.write_bytes(content)
        ended = calibrail("serve", path, "--port", 0, *options)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert str(path) in ended.stderr and "Traceback" not in ended.stderr
