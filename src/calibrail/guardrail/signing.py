"""Signatures of guardrail files, and keys.

A signature is a DSSE envelope (https://github.com/secure-systems-lab/dsse) around an in-toto
Statement v1 (https://github.com/in-toto/attestation), signed with Ed25519. It stands beside the
file, names the SHA-256 of its bytes, and has one spelling only, so that a changed bit anywhere in
the two files is noticed. securesystemslib signs and verifies; it is imported where that is done,
since it imports the clients of key services where they are installed.
"""

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrail.atomic_files import read_regular, write_atomically
from calibrail.errors import GuardrailError, InputError, error_text, errors_as, extra
from calibrail.options import fields
from calibrail.serialization import Record, canonical

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey


#: A file with a public key (PEM), or what stands in one.
PublicKey = str | PathLike[str] | bytes

#: Environment variable with the passphrase of a private key.
PASSPHRASE: Final = "CALIBRAIL_KEY_PASSPHRASE"

_BEGIN: Final = b"-----BEGIN "


def make_keys(path: Path) -> tuple[Path, str, bool]:
    """Write a new private key, and its public key beside it (``key.pub.pem`` for ``key.pem``).

    The private key is readable by its owner alone, and encrypted where the environment variable
    ``CALIBRAIL_KEY_PASSPHRASE`` holds a passphrase.

    Returns
    -------
    tuple of Path, str and bool
        The file of the public key, the key's id, and whether the private key is encrypted.

    Raises
    ------
    GuardrailError
        If one of the files is there already, or cannot be written.
    """
    with extra("signing", "signing"):
        from cryptography.hazmat.primitives import serialization as form
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, passphrase, pem = Ed25519PrivateKey.generate(), _passphrase(), form.Encoding.PEM
    encryption: form.KeySerializationEncryption = form.NoEncryption()
    if passphrase is not None:
        encryption = form.BestAvailableEncryption(passphrase)
    private = key.private_bytes(pem, form.PrivateFormat.PKCS8, encryption)
    public = key.public_key().public_bytes(pem, form.PublicFormat.SubjectPublicKeyInfo)
    beside = path.with_suffix(".pub.pem")
    for file in filter(os.path.lexists, (path, beside)):
        raise GuardrailError.on("key_is_there", file=file)
    with ExitStack() as made:
        # The private one first: whoever makes it makes the pair, and one alone is taken away.
        for file, content, mode in ((path, private, 0o600), (beside, public, 0o666)):
            made.callback(_take_away, file, content)
            there = errors_as(GuardrailError, FileExistsError, "key_is_there", file=file)
            with errors_as(GuardrailError, OSError, "key_not_written", file=file), there:
                write_atomically(file, content, mode=mode, durable=True, new=True)
        made.pop_all()
    return beside, key_id(key.public_key()), passphrase is not None


def _take_away(file: Path, content: bytes) -> None:
    """Remove a key that was made; not another process's in its place."""
    with suppress(OSError):
        if file.read_bytes() == content:
            file.unlink()


def read_private_key(path: str | PathLike[str]) -> "Ed25519PrivateKey":
    """Read the private key that signs; its passphrase comes from the environment."""
    with extra("signing", "signing"):
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path, passphrase = fields.path(path, "key"), _passphrase()
    raw = _read_key(path)
    if b"PUBLIC KEY" in raw:
        raise GuardrailError(f"{path} is a public key; sign with the private one")
    encrypted = b"ENCRYPTED" in raw
    if encrypted and passphrase is None:
        raise GuardrailError.on("key_has_passphrase", path=path, variable=PASSPHRASE)
    try:
        key: object = load_pem_private_key(raw, passphrase if encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        why = f", or the passphrase in {PASSPHRASE} is not its own" if encrypted else ""
        raise _no_key(path, key, "private", why)
    return key


def read_public_key(source: PublicKey) -> "Ed25519PublicKey":
    """Read a public key that is trusted."""
    if isinstance(source, bytes):
        return _public_key(source, Path("the trusted key"))
    path = fields.path(source, "trusted")
    return _public_key(_read_key(path), path)


def public_key_content(path: str | PathLike[str]) -> bytes:
    """Return what stands in the file of a public key that is trusted.

    Whoever keeps it goes on trusting the same key, whatever becomes of the file.
    """
    path = fields.path(path, "trusted")
    raw = _read_key(path)
    _public_key(raw, path)
    return raw


def _public_key(raw: bytes, path: Path) -> "Ed25519PublicKey":
    with extra("signing", "a signature"):
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if b"PRIVATE KEY" in raw:
        raise GuardrailError.on("private_key", path=path, other=path.with_suffix(".pub.pem"))
    try:
        key: object = load_pem_public_key(raw)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise _no_key(path, key, "public")
    return key


def trusted_keys(trusted: object) -> list[Path | bytes]:
    """Return the files of trusted keys, or what stands in them; one file may stand alone.

    Raises
    ------
    InputError
        If there is none, or it is no path.
    """
    if isinstance(trusted, str | PathLike):
        return [Path(trusted)]
    if isinstance(trusted, bytes | Mapping) or not isinstance(trusted, Iterable):
        raise InputError.on("trusted_no_list", kind=type(trusted).__name__)
    files = [
        item if isinstance(item, bytes) and _BEGIN in item else fields.path(item, "each of trusted")
        for item in trusted
    ]
    if not files:
        raise InputError.on("trusted_empty")
    return files


def key_id(key: "Ed25519PublicKey") -> str:
    """Return the SHA-256 of a public key's DER SubjectPublicKeyInfo, in hex."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def _passphrase() -> bytes | None:
    given = os.environ.get(PASSPHRASE)
    return os.fsencode(given) if given else None


def _read_key(path: Path) -> bytes:
    with errors_as(GuardrailError, OSError, "key_unreadable", path=path):
        raw = path.read_bytes()
    if raw.count(_BEGIN) > 1:
        raise GuardrailError.on("several_keys_in_file", path=path)
    return raw


def _no_key(path: Path, key: object, side: str, why: str = "") -> GuardrailError:
    what = "a key of another kind" if key else f"no PEM file of a {side} key"
    return GuardrailError.on("no_key", path=path, what=what, why=why)


PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:calibrail:guardrail:1"

#: No signature is longer; what is longer is not read.
MOST_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class SignatureTerms(Record):
    """Until when, and with which calibrail, what is signed may decide.

    Attributes
    ----------
    expires : str or None
        Last day on which it may decide, in UTC: 2027-06-30.
    min_version : str or None
        Oldest version of calibrail that may load it.

    Raises
    ------
    InputError
        If one of them is no date, or no version.
    """

    expires: str | None = None
    min_version: str | None = None

    def __post_init__(self) -> None:
        day, least = self.expires, self.min_version
        if day is not None and _day(day) is None:
            raise InputError.on("expires_no_day", given=day)
        if least is not None and not (isinstance(least, str) and _VERSION.fullmatch(least)):
            raise InputError.on("min_version_no_version", given=least)


_VERSION: Final = re.compile(r"\d+(\.\d+){0,2}")


def _day(text: object) -> date | None:
    with suppress(ValueError, TypeError):
        return date.fromisoformat(text)  # type: ignore[arg-type]
    return None


def _release(version: str) -> list[int]:
    """Return the numbers that a version begins with."""
    return [int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3]]


@dataclass(frozen=True, slots=True)
class Signature(Record):
    """A signature that was verified.

    Attributes
    ----------
    keyid : str
        SHA-256 of the public key's DER SubjectPublicKeyInfo, in hex.
    name : str
        What the file was called when it was signed; it may be called otherwise now.
    sha256 : str
        SHA-256 of the file's bytes, in hex.
    predicate : mapping
        What the signer's calibrail said of the file: its digest, schema and verdict, the second in
        which it was signed (``serial``), and until when and from which version on it may decide.
    """

    keyid: str
    name: str
    sha256: str
    predicate: Mapping[str, Any]

    @property
    def serial(self) -> int:
        """Second since 1970 in which it was signed; 0 where the signature does not say it."""
        given = self.predicate.get("serial")
        return given if isinstance(given, int) else 0

    @property
    def expires_at(self) -> float:
        """Second since 1970 from which on it holds no more; infinite where it does not say."""
        if (given := self.predicate.get("expires")) is None:
            return math.inf
        day = _day(given)
        return 0.0 if day is None else 86_400.0 * ((day - date(1970, 1, 1)).days + 1)

    @property
    def ends_soon(self) -> str | None:
        """The last day on which it holds, where that is less than two weeks away."""
        is_soon = self.expires_at - time.time() < 14 * 86_400
        return str(self.predicate["expires"]) if is_soon else None

    def outdated(self, source: str) -> str:
        """Return why the file may not decide any more, or not here; empty where it may."""
        expires, needed = (self.predicate.get(name) for name in ("expires", "min_version"))
        if datetime.now(UTC).timestamp() >= self.expires_at:
            return error_text("signature_expired", source=source, day=expires)
        if needed and _release(str(needed)) > _release(here := version("calibrail")):
            return error_text("signature_of_newer", source=source, needed=needed, here=here)
        return ""


def signature_path(path: str | PathLike[str]) -> Path:
    """Return where the signature of a guardrail file stands.

    >>> signature_path("g.json").name
    'g.json.dsse'
    """
    path = Path(path)
    return path.with_name(f"{path.name}.dsse")


def sign(raw: bytes, name: str, predicate: Mapping[str, Any], key: "Ed25519PrivateKey") -> bytes:
    """Return the envelope for a file's bytes; the same arguments always give the same one."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner

    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": hashlib.sha256(raw).hexdigest()}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": dict(predicate),
    }
    envelope = Envelope(canonical(statement, escaped=True).encode(), PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(key, _library_key(key.public_key())))
    return canonical(envelope.to_dict(), escaped=True).encode() + b"\n"


def verify(
    raw: bytes,
    envelope: bytes,
    trusted: Sequence[PublicKey],
    source: str = "the guardrail",
    signature: str = "its signature",
) -> Signature:
    """Return the signature of a file's bytes if one of the trusted keys made it.

    Parameters
    ----------
    raw : bytes
        The file.
    envelope : bytes
        What stands beside it.
    trusted : sequence of path or bytes
        Files with a public Ed25519 key each (PEM), or what stands in them.
    source, signature : str
        What messages call the two.

    Raises
    ------
    GuardrailError
        If anything differs from what one of the keys signed, with what it is.
    """
    from securesystemslib.exceptions import VerificationError

    keys = {key_id(key): _library_key(key) for key in map(read_public_key, trusted)}
    opened = _read_envelope(envelope, signature)
    (keyid,) = opened.signatures
    if keyid not in keys:
        among = ", ".join(f"{name:.16}..." for name in keys)
        raise GuardrailError.on("another_key", source=source, keyid=keyid, among=among)
    try:
        opened.verify([keys[keyid]], threshold=1)
    except VerificationError:
        raise GuardrailError.on("signature_changed", signature=signature, keyid=keyid) from None
    # What a trusted key has signed may be read.
    statement = None
    with suppress(ValueError, RecursionError):
        statement = json.loads(opened.payload)
    match statement:
        case {
            "_type": kind,
            "subject": [{"name": str(name), "digest": {"sha256": str(digest)}}],
            "predicateType": about,
            "predicate": dict(predicate),
        } if (kind, about) == (STATEMENT_TYPE, PREDICATE_TYPE):
            signed = Signature(keyid, name, digest, predicate)
        case _:
            raise GuardrailError.on("signs_no_guardrail", signature=signature, kind=PREDICATE_TYPE)
    if signed.sha256 != (here := hashlib.sha256(raw).hexdigest()):
        raise GuardrailError.on("another_file_signed", source=source, signed=signed, here=here)
    if why := signed.outdated(source):
        raise GuardrailError(why)
    # Once a service has noted such a one, it would refuse whatever is signed until then. Clocks
    # may differ by five minutes.
    if signed.serial > time.time() + 300:
        day = datetime.fromtimestamp(min(signed.serial, 2**36), UTC)
        raise GuardrailError.on("signed_ahead", source=source, signed=day)
    return signed


def read_beside(path: Path) -> bytes:
    """Return the envelope that stands beside a file; refuse a file without one."""
    beside = signature_path(path)
    try:
        return read_regular(beside, MOST_BYTES + 1)
    except FileNotFoundError:
        raise GuardrailError.on("not_signed", path=path, beside=beside) from None
    except OSError as error:
        raise GuardrailError(f"cannot read {beside}: {error.strerror or error}") from error


def _library_key(key: "Ed25519PublicKey") -> "SSlibKey":
    """Return a key as securesystemslib takes it, under our own id."""
    from securesystemslib.signer import SSlibKey

    return SSlibKey.from_crypto(key, keyid=key_id(key))


def _read_envelope(raw: bytes, source: str) -> "Envelope":
    """Return an envelope with one signature; refuse every spelling but the one that is written."""
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import Signature as LibrarySignature

    damaged = GuardrailError.on("envelope_damaged", source=source)
    if len(raw) > MOST_BYTES:
        raise damaged
    try:
        envelope = Envelope.from_dict(json.loads(raw.decode("ascii")))
        (signed,) = envelope.signatures.values()
        bare = {signed.keyid: LibrarySignature(signed.keyid, signed.signature)}
        rendered = Envelope(envelope.payload, PAYLOAD_TYPE, bare).to_dict()
    except Exception:
        # Whatever the library makes of bytes that anyone may have written.
        raise damaged from None
    if canonical(rendered, escaped=True).encode() + b"\n" != raw:
        raise damaged
    return envelope
