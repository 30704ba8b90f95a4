"""Which keys sign guardrails, and which are trusted?"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final

from calibrail.errors import GuardrailError, InputError
from calibrail.settings import checks

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

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
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key, passphrase = Ed25519PrivateKey.generate(), _passphrase()
    encryption: form.KeySerializationEncryption = form.NoEncryption()
    if passphrase is not None:
        encryption = form.BestAvailableEncryption(passphrase)
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, encryption)
    public = key.public_key().public_bytes(
        form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo
    )
    beside = path.with_suffix(".pub.pem")
    for file in (path, beside):
        if file.exists() or file.is_symlink():
            raise GuardrailError(
                f"{file} is there already, and keys are not replaced; name another"
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, content, mode in ((path, private, 0o600), (beside, public, 0o644)):
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(handle, "wb") as opened:
                opened.write(content)
        except OSError as error:
            raise GuardrailError(f"cannot write {file}: {error.strerror or error}") from error
    return beside, key_id(key.public_key()), passphrase is not None


def read_private_key(path: str | PathLike[str]) -> "Ed25519PrivateKey":
    """Read the private key that signs; its passphrase comes from the environment."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path, passphrase = checks.path(path, "key"), _passphrase()
    raw = _read_key(path)
    if b"PUBLIC KEY" in raw:
        raise GuardrailError(f"{path} is a public key; sign with the private one")
    encrypted = b"ENCRYPTED" in raw
    if encrypted and passphrase is None:
        raise GuardrailError(
            f"{path} has a passphrase; give it in the environment variable {PASSPHRASE}"
        )
    try:
        key = load_pem_private_key(raw, passphrase if encrypted else None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        why = f"the passphrase in {PASSPHRASE} is not its own, or " if encrypted else ""
        raise GuardrailError(
            f"{path} cannot be read as a private key: {why}it is no PEM file of a private key; "
            "make one with `calibrail keygen -o key.pem`"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _other_kind(path, key)
    return key


def read_public_key(source: PublicKey) -> "Ed25519PublicKey":
    """Read a public key that is trusted."""
    if isinstance(source, bytes):
        return _public_key(source, Path("the trusted key"))
    path = checks.path(source, "trusted")
    return _public_key(_read_key(path), path)


def public_key_content(path: str | PathLike[str]) -> bytes:
    """Return what stands in the file of a public key that is trusted.

    Whoever keeps it goes on trusting the same key, whatever becomes of the file.
    """
    path = checks.path(path, "trusted")
    raw = _read_key(path)
    _public_key(raw, path)
    return raw


def _public_key(raw: bytes, path: Path) -> "Ed25519PublicKey":
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if b"PRIVATE KEY" in raw:
        raise GuardrailError(
            f"{path} is a private key, which only the signer needs; trust the public one beside it "
            f"({path.with_suffix('.pub.pem').name})"
        )
    try:
        key = load_pem_public_key(raw)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise GuardrailError(
            f"{path} is no PEM file of a public key, such as `calibrail keygen` writes"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise _other_kind(path, key)
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
        raise InputError(
            f"trusted must be a list of files with a public key each; got {type(trusted).__name__}"
        )
    files = [
        item if isinstance(item, bytes) and _BEGIN in item else checks.path(item, "each of trusted")
        for item in trusted
    ]
    if not files:
        raise InputError(
            "trusted is empty, so that no signature could be accepted; name the file of a public "
            "key, or leave trusted out where signatures are not to be looked at"
        )
    return files


def key_id(key: "Ed25519PublicKey") -> str:
    """Return the SHA-256 of a public key's DER SubjectPublicKeyInfo, in hex."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return hashlib.sha256(
        key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    ).hexdigest()


def _passphrase() -> bytes | None:
    given = os.environ.get(PASSPHRASE)
    return os.fsencode(given) if given else None


def _read_key(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise GuardrailError(f"cannot read the key {path}: {error.strerror or error}") from error
    if raw.count(_BEGIN) > 1:
        raise GuardrailError(
            f"{path} holds more than one key, of which one alone would count; put each into a file "
            "of its own, and name all that you mean"
        )
    return raw


def _other_kind(path: Path, key: object) -> GuardrailError:
    kind = type(key).__name__.lstrip("_").removesuffix("PrivateKey").removesuffix("PublicKey")
    return GuardrailError(
        f"{path} is a key of another kind ({kind}): signatures of guardrails are Ed25519; make a "
        "key with `calibrail keygen -o key.pem`"
    )
