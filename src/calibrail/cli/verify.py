"""``calibrail verify``: is this the guardrail that was certified and signed?"""

import calibrail
from calibrail.cli import options as opt
from calibrail.guardrail.signing import signature_path


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    key: opt.Keys = None,
    *,
    show: opt.ShowJson,
) -> None:
    """Verify a guardrail: every byte, the detector on this machine, and with --key who signed it.

    Exit code 0 verified, 1 refused, with the reason.
    """
    loaded = calibrail.Guardrail.load(guardrail, trusted=key or ())
    config, signature = loaded.config, loaded.signature
    if signature is not None:
        signed = f"signed by the key {signature.keyid}"
    elif signature_path(guardrail).exists():
        signed = "its signature was not looked at: name the key that you trust (--key)"
    else:
        signed = "not signed"
    show.finish(
        [
            f"{guardrail}: not a byte has changed; digest {config.digest}",
            f"detector: {config.score.name}, the one that was frozen",
            signed,
            f"{config.headline.verdict} when calibrated",
        ],
        {
            "schema": "calibrail.verify/1",
            "guardrail": str(guardrail),
            "digest": config.digest,
            "verdict": config.headline.verdict,
            "signature": None
            if signature is None
            else {
                "keyid": signature.keyid,
                "name": signature.name,
                "sha256": signature.sha256,
                "predicate": dict(signature.predicate),
            },
        },
    )
