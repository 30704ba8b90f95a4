"""How is a guardrail file read and written, with its signature?"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from os import PathLike
from pathlib import Path

from calibrail.errors import GuardrailError
from calibrail.guardrail.frozen import FrozenConfig
from calibrail.guardrail.keys import PublicKey, read_private_key, trusted_keys
from calibrail.guardrail.regular import read_regular
from calibrail.guardrail.signing import SIGN, Signature, sign, signature_path, verify_beside
from calibrail.settings import checks
from calibrail.writing import write_atomically


@dataclass(frozen=True, slots=True)
class Origin:
    """Which file a guardrail was read from, and who vouches for it.

    Attributes
    ----------
    path : Path
        Where it stood, from the root.
    sha256 : str
        SHA-256 of its bytes, in hex.
    signature : Signature or None
        The signature of a trusted key; None where none was asked for.
    """

    path: Path
    sha256: str
    signature: Signature | None = None


@dataclass(frozen=True, slots=True)
class FrozenFile:
    """What a guardrail file holds, and where that is from."""

    config: FrozenConfig
    origin: Origin


def read_file(path: str | PathLike[str], trusted: Sequence[PublicKey] | None = None) -> FrozenFile:
    """Read a guardrail file once, and verify every byte of it; its detector is not built.

    Parameters
    ----------
    path : path
        The file.
    trusted : sequence of path or bytes, optional
        Public keys (files, or what stands in them), one of which must have signed it. Where it is
        left out, signatures are not looked at.

    Raises
    ------
    InputError
        If ``trusted`` names no key.
    GuardrailError
        If it cannot be read, was changed, or is not signed by one of the keys.
    """
    path = checks.path(path, "path")
    keys = None if trusted is None else trusted_keys(trusted)
    try:
        raw = read_regular(path)
    except OSError as error:
        raise GuardrailError(f"cannot read {path}: {error.strerror or error}") from error
    # What nobody vouches for is not even parsed.
    signature = None if keys is None else verify_beside(path, raw, keys)
    config = FrozenConfig.from_bytes(raw, source=str(path))
    if signature is not None:
        _refuse_other_statement(path, raw, signature)
    return FrozenFile(config, Origin(path.absolute(), hashlib.sha256(raw).hexdigest(), signature))


def write_file(
    config: FrozenConfig,
    path: str | PathLike[str],
    sign_with: str | PathLike[str] | None = None,
) -> None:
    """Write a guardrail file, and its signature beside it where a private key is given.

    The same content and key always give the same bytes.
    """
    path = Path(path)
    key = None if sign_with is None else read_private_key(sign_with)
    raw = config.to_bytes()
    if key is not None:
        predicate = {"calibrail": version("calibrail"), **_stated(raw)}
        # Whoever waits for the guardrail finds its signature there; and where that cannot be
        # written, the old pair is still whole.
        write_atomically(signature_path(path), sign(raw, path.name, predicate, key))
    write_atomically(path, raw)


def _stated(raw: bytes) -> dict[str, str]:
    """Return what a signature says of a file that was verified: what its own bytes say."""
    content = json.loads(raw)
    verdict = content["headline"]["verdict"]
    return {"digest": content["digest"], "schema": content["schema"], "verdict": verdict}


def _refuse_other_statement(path: Path, raw: bytes, signature: Signature) -> None:
    said = signature.predicate
    wrong = [
        f"{name} {said.get(name)!r}, and the file {value!r}"
        for name, value in _stated(raw).items()
        if said.get(name) != value
    ]
    if wrong:
        raise GuardrailError(
            f"the signature of {path} states something else of it than it holds: "
            f"{'; '.join(wrong)}; {SIGN.format(path)} again"
        )
