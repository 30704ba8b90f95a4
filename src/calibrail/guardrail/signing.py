"""Who vouches for a guardrail file, and how can a stranger tell?

A signature is a DSSE envelope (https://github.com/secure-systems-lab/dsse) around an in-toto
Statement v1 (https://github.com/in-toto/attestation), signed with Ed25519. It stands beside the
file, names the SHA-256 of its bytes, and has one spelling only, so that a changed bit anywhere in
the two files is noticed.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from calibrail.errors import GuardrailError
from calibrail.guardrail.keys import PublicKey, key_id, read_public_key
from calibrail.guardrail.regular import read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "urn:calibrail:guardrail:1"

#: No signature is longer; what is longer is not read.
MOST_BYTES: Final = 65_536

SIGN: Final = "sign it with `calibrail export RUN -o {} --sign key.pem`"


@dataclass(frozen=True, slots=True)
class Signature:
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
        What the signer's calibrail said of the file: its digest, schema and verdict.
    """

    keyid: str
    name: str
    sha256: str
    predicate: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return asdict(self)


def signature_path(path: str | PathLike[str]) -> Path:
    """Return where the signature of a guardrail file stands.

    >>> signature_path("g.json").name
    'g.json.dsse'
    """
    path = Path(path)
    return path.with_name(f"{path.name}.dsse")


def sign(raw: bytes, name: str, predicate: Mapping[str, Any], key: "Ed25519PrivateKey") -> bytes:
    """Return the envelope for a file's bytes; the same file and key always give the same one."""
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": hashlib.sha256(raw).hexdigest()}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": dict(predicate),
    }
    payload = _json(statement)
    return _envelope(payload, key_id(key.public_key()), key.sign(_to_sign(payload)))


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
    from cryptography.exceptions import InvalidSignature

    keys = {key_id(key): key for key in map(read_public_key, trusted)}
    payload, keyid, signed = _open_envelope(envelope, signature)
    if keyid not in keys:
        among = ", ".join(f"{name[:16]}..." for name in keys)
        raise GuardrailError(
            f"{source} is signed by another key ({keyid:.16}...) than those trusted ({among}); ask "
            "who signed it for the public key, and trust it only if it is theirs"
        )
    try:
        keys[keyid].verify(signed, _to_sign(payload))
    except InvalidSignature:
        raise GuardrailError(
            f"{signature} was changed: the trusted key {keyid:.16}... did not sign this; restore "
            "the file and its signature from where they were made"
        ) from None
    # What a trusted key has signed may be read.
    name, digest, predicate = _read_statement(payload, signature)
    if digest != (here := hashlib.sha256(raw).hexdigest()):
        raise GuardrailError(
            f"{source} is not what was signed: {signature} is of a file {name!r} with SHA-256 "
            f"{digest:.16}..., and this one has {here:.16}...; restore the file that was signed, "
            "or sign this one"
        )
    return Signature(keyid, name, digest, predicate)


def verify_beside(path: Path, raw: bytes, trusted: Sequence[PublicKey]) -> Signature:
    """Return the signature that stands beside a file whose bytes were read; see `verify`."""
    beside = signature_path(path)
    try:
        envelope = read_regular(beside, MOST_BYTES + 1)
    except FileNotFoundError:
        raise GuardrailError(
            f"{path} is not signed, and a signature of a trusted key is asked for: there is no "
            f"{beside}; {SIGN.format(path)}, or fetch the signature, too"
        ) from None
    except OSError as error:
        raise GuardrailError(f"cannot read {beside}: {error.strerror or error}") from error
    return verify(raw, envelope, trusted, str(path), str(beside))


def _to_sign(payload: bytes) -> bytes:
    """Return DSSE's pre-authentication encoding of a payload and its type."""
    kind = PAYLOAD_TYPE.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def _envelope(payload: bytes, keyid: str, signed: bytes) -> bytes:
    signature = {"keyid": keyid, "sig": base64.b64encode(signed).decode()}
    content = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [signature],
    }
    return _json(content) + b"\n"


def _open_envelope(raw: bytes, source: str) -> tuple[bytes, str, bytes]:
    """Return payload, key id and signature; refuse every spelling but the one that is written."""
    damaged = GuardrailError(
        f"{source} was changed or is damaged: it is not a DSSE envelope as calibrail writes it "
        "(one Ed25519 signature); restore it, or sign again"
    )
    if len(raw) > MOST_BYTES:
        raise damaged
    try:
        match json.loads(raw.decode("ascii")):
            case {"payload": str(payload), "signatures": [{"keyid": str(keyid), "sig": str(sig)}]}:
                parts = base64.b64decode(payload), keyid, base64.b64decode(sig)
            case _:
                raise damaged
        rendered = _envelope(*parts)
    except (ValueError, RecursionError):
        raise damaged from None
    if rendered != raw:
        raise damaged
    return parts


def _read_statement(payload: bytes, source: str) -> tuple[str, str, dict[str, Any]]:
    """Return the name, digest and predicate of a statement about one guardrail file."""
    try:
        content = json.loads(payload)
    except (ValueError, RecursionError):
        content = None
    match content:
        case {
            "_type": kind,
            "subject": [{"name": str(name), "digest": {"sha256": str(digest)}}],
            "predicateType": about,
            "predicate": dict(predicate),
        } if (kind, about) == (STATEMENT_TYPE, PREDICATE_TYPE):
            return name, digest, predicate
    raise GuardrailError(
        f"{source} is signed by a trusted key, but says nothing of a guardrail file: it is no "
        f"in-toto statement of the type {PREDICATE_TYPE} about one file; sign the guardrail with "
        "`calibrail export --sign`"
    )


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
