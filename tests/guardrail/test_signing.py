from __future__ import annotations

import base64
import copy
import itertools
import json
import os
import pickle
import random
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from calibrail import card
from calibrail.errors import DataError, GuardrailError, InputError
from calibrail.guardrail import Guardrail, signature_path
from calibrail.guardrail import file as guardrail_file
from calibrail.guardrail.file import read_file
from calibrail.guardrail.signing import (
    PASSPHRASE,
    key_id,
    make_keys,
    read_private_key,
    read_public_key,
    sign,
    verify,
)

Make = Callable[..., Guardrail]


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    private = tmp_path / "keys" / "key.pem"
    public, _, _ = make_keys(private)
    return private, public


@pytest.fixture
def signed(make_guardrail: Make, keys: tuple[Path, Path], tmp_path: Path) -> Path:
    path = tmp_path / "g.json"
    make_guardrail().save(path, sign=keys[0])
    return path


def flipped(raw: bytes, bit: int) -> bytes:
    changed = bytearray(raw)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_signed_guardrail_loads_and_says_by_whom(signed: Path, keys: tuple[Path, Path]) -> None:
    loaded = Guardrail.load(signed, trusted=[keys[1]])
    assert loaded.signature is not None
    assert loaded.signature.name == "g.json"
    assert loaded.signature.predicate["digest"] == loaded.config.digest
    assert loaded.signature.predicate["verdict"] == loaded.config.headline.verdict
    assert Guardrail.load(signed).signature is None


def test_the_same_file_and_key_give_the_same_signature(
    signed: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A signature holds the second in which it was made.
    now = time.time()
    monkeypatch.setattr("calibrail.guardrail.file.time", SimpleNamespace(time=lambda: now))
    Guardrail.load(signed).save(signed, sign=keys[0], force=True)
    before = signature_path(signed).read_bytes()
    Guardrail.load(signed).save(signed, sign=keys[0])
    assert signature_path(signed).read_bytes() == before


def test_the_envelope_is_dsse_around_an_in_toto_statement(
    signed: Path, keys: tuple[Path, Path]
) -> None:
    envelope = json.loads(signature_path(signed).read_text())
    payload = base64.b64decode(envelope["payload"])
    kind = b"application/vnd.in-toto+json"
    # Pre-authentication encoding by the text of the specification.
    encoded = b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)
    (signature,) = envelope["signatures"]
    read_public_key(keys[1]).verify(base64.b64decode(signature["sig"]), encoded)
    statement = json.loads(payload)
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    assert statement["subject"][0]["name"] == "g.json"


def test_every_changed_bit_of_file_and_signature_is_refused(
    signed: Path, keys: tuple[Path, Path]
) -> None:
    raw, envelope = signed.read_bytes(), signature_path(signed).read_bytes()
    verify(raw, envelope, [keys[1]])
    changes = [(raw, flipped(envelope, bit)) for bit in range(8 * len(envelope))]
    drawn = random.Random(0).sample(range(8 * len(raw)), 10_000 - min(9_000, len(changes)))
    changes += [(flipped(raw, bit), envelope) for bit in drawn]
    assert len(changes) >= 10_000
    for changed_raw, changed_envelope in changes:
        with pytest.raises(GuardrailError):
            verify(changed_raw, changed_envelope, [keys[1]])


@pytest.mark.parametrize("part", ["file", "signature"])
def test_a_changed_file_does_not_load(
    signed: Path, keys: tuple[Path, Path], part: str, make_guardrail: Make
) -> None:
    if part == "file":
        # Another guardrail, whole, with its own right digest.
        make_guardrail(alpha=0.2).save(signed, force=True)
        message = r"is not what was signed: .*'g\.json' with SHA-256"
    else:
        beside = signature_path(signed)
        beside.write_bytes(beside.read_bytes()[:-1])
        message = "changed or is damaged"
    with pytest.raises(GuardrailError, match=message):
        Guardrail.load(signed, trusted=[keys[1]])


def test_another_spelling_of_a_right_envelope_is_refused(
    signed: Path, keys: tuple[Path, Path]
) -> None:
    raw, envelope = signed.read_bytes(), signature_path(signed).read_bytes()
    content = json.loads(envelope)
    twice = {**content, "signatures": content["signatures"] * 2}
    more = {**content, "note": "harmless"}
    for changed in (
        b" " + envelope,
        envelope + b"\n",
        envelope[:-1],
        json.dumps(content).encode(),
        json.dumps(twice, sort_keys=True, separators=(",", ":")).encode() + b"\n",
        json.dumps(more, sort_keys=True, separators=(",", ":")).encode() + b"\n",
        b"",
        b"null",
        b"[" * 60_000,
        b"\xff" * 10,
        b" " * 100_000,
    ):
        with pytest.raises(GuardrailError, match="changed or is damaged"):
            verify(raw, changed, [keys[1]])


def test_any_of_the_trusted_keys_is_enough_and_another_is_not(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    other, _, _ = make_keys(tmp_path / "other.pem")
    assert Guardrail.load(signed, trusted=[other, keys[1]]).signature is not None
    assert Guardrail.load(signed, trusted=keys[1]).signature is not None  # type: ignore[arg-type]
    with pytest.raises(GuardrailError, match="signed by another key"):
        Guardrail.load(signed, trusted=[other])


def test_a_signature_that_another_key_made_in_the_name_of_a_trusted_one_is_refused(
    signed: Path, keys: tuple[Path, Path]
) -> None:
    raw, beside = signed.read_bytes(), signature_path(signed)
    forged = json.loads(sign(raw, "g.json", {}, Ed25519PrivateKey.generate()))
    forged["signatures"][0]["keyid"] = json.loads(beside.read_bytes())["signatures"][0]["keyid"]
    beside.write_bytes(json.dumps(forged, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    with pytest.raises(GuardrailError, match="did not sign this"):
        Guardrail.load(signed, trusted=[keys[1]])


def test_a_statement_about_something_else_is_refused(
    signed: Path, keys: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = read_private_key(keys[0])
    with monkeypatch.context() as patch:
        patch.setattr(
            "calibrail.guardrail.signing.PREDICATE_TYPE", "https://slsa.dev/provenance/v1"
        )
        envelope = sign(signed.read_bytes(), "g.json", {}, key)
    with pytest.raises(GuardrailError, match="says nothing of a guardrail"):
        verify(signed.read_bytes(), envelope, [keys[1]])


def test_an_unsigned_guardrail_is_refused_where_keys_are_trusted(
    signed: Path, keys: tuple[Path, Path]
) -> None:
    signature_path(signed).unlink()
    with pytest.raises(GuardrailError, match=r"is not signed.*--sign key\.pem"):
        Guardrail.load(signed, trusted=[keys[1]])
    signature_path(signed).mkdir()
    with pytest.raises(GuardrailError, match=r"cannot read .*g\.json\.dsse"):
        Guardrail.load(signed, trusted=[keys[1]])


def test_what_nobody_vouches_for_is_not_parsed(signed: Path, keys: tuple[Path, Path]) -> None:
    signed.write_bytes(b"[" * 100_000)
    with pytest.raises(GuardrailError, match="is not what was signed"):
        read_file(signed, [keys[1]])


def test_what_has_no_signature_is_not_read(tmp_path: Path, keys: tuple[Path, Path]) -> None:
    with (path := tmp_path / "g.json").open("wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(GuardrailError, match="is not signed"):
        Guardrail.load(path, trusted=[keys[1]])


def test_keys_are_private_and_are_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "key.pem"
    public, _, encrypted = make_keys(path)
    assert public == path.with_name("key.pub.pem")
    assert not encrypted
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(GuardrailError, match=r"key\.pem is there already"):
        make_keys(path)
    path.unlink()
    with pytest.raises(GuardrailError, match=r"key\.pub\.pem is there already"):
        make_keys(path)
    assert not path.exists()
    assert before


def test_a_passphrase_comes_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key.pem"
    monkeypatch.setenv(PASSPHRASE, "open sesame")
    _, _, encrypted = make_keys(path)
    assert encrypted
    assert b"ENCRYPTED" in path.read_bytes()
    read_private_key(path)
    monkeypatch.setenv(PASSPHRASE, "wrong")
    with pytest.raises(GuardrailError, match="passphrase"):
        read_private_key(path)
    monkeypatch.delenv(PASSPHRASE)
    with pytest.raises(GuardrailError, match=f"has a passphrase.*{PASSPHRASE}"):
        read_private_key(path)


def test_keys_that_cannot_sign_or_be_trusted_are_named(
    keys: tuple[Path, Path], tmp_path: Path
) -> None:
    private, public = keys
    with pytest.raises(GuardrailError, match="is a public key"):
        read_private_key(public)
    with pytest.raises(GuardrailError, match=r"is a private key.*key\.pub\.pem"):
        read_public_key(private)
    broken = tmp_path / "broken.pem"
    broken.write_bytes(private.read_bytes()[:60])
    for read, path in (
        (read_private_key, tmp_path / "missing.pem"),
        (read_public_key, tmp_path),
        (read_private_key, broken),
    ):
        with pytest.raises(GuardrailError, match=path.name):
            read(path)
    broken.write_bytes(b"no key")
    for read in (read_private_key, read_public_key):
        with pytest.raises(GuardrailError, match=r"broken\.pem.*calibrail export RUN .*--new-key"):
            read(broken)


@pytest.mark.parametrize("kind", ["RSA", "EllipticCurve"])
def test_a_key_that_is_not_ed25519_is_refused(tmp_path: Path, kind: str) -> None:
    key = {
        "RSA": lambda: rsa.generate_private_key(65537, 1024),
        "EllipticCurve": lambda: ec.generate_private_key(ec.SECP256R1()),
    }[kind]()
    private, public = tmp_path / "key.pem", tmp_path / "pub.pem"
    private.write_bytes(
        key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    )
    public.write_bytes(
        key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
    )
    for read, path in ((read_private_key, private), (read_public_key, public)):
        with pytest.raises(GuardrailError, match="is a key of another kind"):
            read(path)


def test_nothing_is_written_with_a_key_that_cannot_sign(
    make_guardrail: Make, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    with pytest.raises(GuardrailError, match="is a public key"):
        make_guardrail().save(tmp_path / "new.json", sign=keys[1])
    assert not (tmp_path / "new.json").exists()


@pytest.mark.parametrize("empty", [(), [], iter(())], ids=["tuple", "list", "generator"])
def test_no_trusted_key_at_all_accepts_nothing(signed: Path, empty: Any) -> None:
    signature_path(signed).write_bytes(b"garbage")
    for load in (Guardrail.load, card, read_file):
        with pytest.raises(InputError, match="trusted is empty"):
            load(signed, trusted=empty)
    assert Guardrail.load(signed, trusted=None).signature is None


@pytest.mark.parametrize(
    ("trusted", "message"),
    [
        (5, "trusted must be a list of files with a public key each; got int"),
        (True, "got bool"),
        (b"key.pub.pem", "got bytes"),
        ({"key.pub.pem": 1}, "got dict"),
        ([None], "each of trusted must be a path; got NoneType"),
        ([b"key.pub.pem"], "each of trusted must be a path; got bytes"),
    ],
    ids=repr,
)
def test_what_is_no_list_of_keys_is_named(signed: Path, trusted: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Guardrail.load(signed, trusted=trusted)


def test_a_file_of_several_keys_is_refused(
    signed: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    private, public = keys
    other, _, _ = make_keys(tmp_path / "other.pem")
    several = tmp_path / "several.pem"
    for first, second in ((public, other), (other, public)):
        several.write_bytes(first.read_bytes() + second.read_bytes())
        with pytest.raises(GuardrailError, match=r"several\.pem holds more than one key"):
            Guardrail.load(signed, trusted=[several])
    several.write_bytes(private.read_bytes() * 2)
    with pytest.raises(GuardrailError, match="holds more than one key"):
        read_private_key(several)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("part", ["file", "signature"])
def test_what_is_no_regular_file_is_refused_at_once(
    signed: Path, keys: tuple[Path, Path], kind: str, part: str
) -> None:
    path = signed if part == "file" else signature_path(signed)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    refused: list[str] = []

    def load() -> None:
        try:
            Guardrail.load(signed, trusted=[keys[1]])
        except GuardrailError as error:
            refused.append(str(error))

    reader = threading.Thread(target=load, daemon=True)
    reader.start()
    reader.join(30.0)
    (said,) = refused
    assert said.startswith(f"cannot read {path}: it is no regular file")


def test_a_link_to_a_guardrail_is_followed(signed: Path, keys: tuple[Path, Path]) -> None:
    # As a cluster mounts files.
    link = signed.with_name("link.json")
    link.symlink_to(signed)
    signature_path(link).symlink_to(signature_path(signed))
    assert Guardrail.load(link, trusted=[keys[1]]).signature is not None


@pytest.mark.parametrize(
    "copied",
    [lambda item: pickle.loads(pickle.dumps(item)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_a_copy_knows_what_was_verified(
    signed: Path, keys: tuple[Path, Path], copied: Callable[[Guardrail], Guardrail]
) -> None:
    loaded = Guardrail.load(signed, trusted=[keys[1]], probe=True)
    other = copied(loaded)
    assert other.signature == loaded.signature is not None
    assert other.probed == loaded.probed is not None
    assert other.origin == loaded.origin is not None
    assert card(other).content == card(loaded).content
    assert card(loaded).content["file"]["name"] == "g.json"


def test_the_signature_is_written_first_and_without_it_nothing(
    signed: Path,
    keys: tuple[Path, Path],
    make_guardrail: Make,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []

    def full(path: Path, raw: bytes) -> None:
        written.append(path.name)
        raise OSError("no space left")

    monkeypatch.setattr(guardrail_file, "write_atomically", full)
    with pytest.raises(DataError, match="no space"):
        make_guardrail(alpha=0.2).save(signed, sign=keys[0], force=True)
    assert written == ["g.json.dsse"]
    assert Guardrail.load(signed, trusted=[keys[1]]).signature is not None


@pytest.mark.parametrize("name", ["digest", "schema", "verdict"])
@pytest.mark.parametrize("value", ["another", None])
def test_a_signature_that_states_something_else_of_the_file_is_refused(
    signed: Path, keys: tuple[Path, Path], name: str, value: str | None
) -> None:
    raw = signed.read_bytes()
    predicate = dict(read_file(signed, [keys[1]])[1].signature.predicate)  # type: ignore[union-attr]
    predicate[name] = value
    if value is None:
        del predicate[name]
    envelope = sign(raw, signed.name, predicate, read_private_key(keys[0]))
    signature_path(signed).write_bytes(envelope)
    with pytest.raises(
        GuardrailError, match=rf"states something else.*{name}.*sign it with .*again"
    ):
        Guardrail.load(signed, trusted=[keys[1]])


def test_processes_that_make_one_pair_at_once_leave_one_pair(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from calibrail.errors import GuardrailError\n"
        "from calibrail.guardrail.signing import make_keys\n"
        "print(flush=True); sys.stdin.readline()\n"
        "for n in range(20):\n"
        "    try: make_keys(Path(sys.argv[1]) / f'{n}.pem')\n"
        "    except GuardrailError as error: assert 'is there already' in str(error), error\n"
        "    else: print(n)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(3)]
    assert all(process.stdout.readline() == "\n" for process in processes)
    made = [process.communicate("\n")[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(int(n) for each in made for n in each) == list(range(20))
    for n in range(20):
        path = tmp_path / f"{n}.pem"
        pair = read_private_key(path).public_key(), read_public_key(path.with_suffix(".pub.pem"))
        assert key_id(pair[0]) == key_id(pair[1])
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(list(tmp_path.iterdir())) == 40


@pytest.mark.parametrize("at", ["link", "fsync"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("after", [False, True])
def test_an_interrupt_leaves_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, nth: int, after: bool
) -> None:
    calls, act = itertools.count(1), getattr(os, at)

    def interrupted(*given: Any) -> Any:
        is_it = next(calls) == nth
        done = act(*given) if after or not is_it else None
        if is_it:
            raise KeyboardInterrupt
        return done

    monkeypatch.setattr(os, at, interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_keys(tmp_path / "key.pem")
    assert list(tmp_path.iterdir()) == []
    make_keys(tmp_path / "key.pem")


def test_a_public_key_that_came_first_stays_and_no_private_one_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "lexists", lambda path: False)
    (tmp_path / "key.pub.pem").write_text("somebody else's")
    with pytest.raises(GuardrailError, match=r"key\.pub\.pem is there already"):
        make_keys(tmp_path / "key.pem")
    assert [path.name for path in tmp_path.iterdir()] == ["key.pub.pem"]
    assert (tmp_path / "key.pub.pem").read_text() == "somebody else's"
