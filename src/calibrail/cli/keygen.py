"""``calibrail keygen``: a pair of keys to sign guardrails with."""

from pathlib import Path
from typing import Annotated

from calibrail.cli import options as opt
from calibrail.guardrail.keys import PASSPHRASE, make_keys


@opt.takes_settings
def run(
    output: Annotated[
        Path, opt.to_file("Private key to write; the public one stands beside it, as NAME.pub.pem.")
    ],
    show: opt.ShowAlone,
) -> None:
    """Make an Ed25519 key that signs guardrails, and the public key that others trust.

    The private key is readable by you alone, and encrypted where the environment variable
    CALIBRAIL_KEY_PASSPHRASE holds a passphrase. No file is replaced.
    """
    public, keyid, encrypted = make_keys(output)
    show.finish(
        [
            f"{output}: private key; keep it secret",
            f"{public}: public key, for those who check; its id is {keyid}",
        ],
        {
            "schema": "calibrail.keygen/1",
            "private": str(output),
            "public": str(public),
            "keyid": keyid,
            "encrypted": encrypted,
        },
        "" if encrypted else f"the private key has no passphrase; {PASSPHRASE} was not set",
    )
