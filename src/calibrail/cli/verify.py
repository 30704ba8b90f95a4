"""``calibrail verify``: is this what was certified and signed, and does this machine compute it?"""

from typing import Annotated

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.probing import announce
from calibrail.errors import GuardrailError


@opt.takes_settings
def run(
    guardrail: opt.Guardrail,
    key: opt.Keys = None,
    probe_endpoint: Annotated[
        bool,
        typer.Option(
            "--probe-endpoint", help="Ask a judge's endpoint about the probe answers, too."
        ),
    ] = False,
    *,
    calls: opt.Calls,
    show: opt.ShowAlone,
) -> None:
    """Verify a guardrail: every byte, with --key who signed it, and what this machine computes.

    The scores of 16 probe answers were frozen with it; they are computed again. Exit code 0
    verified, 1 refused, with the reason and the versions on both sides.
    """
    from calibrail.guardrail.signing import signature_path
    from calibrail.models.call_limits import limit_calls
    from calibrail.report.documents.verify import lines

    loaded = calibrail.Guardrail.load(guardrail, trusted=key or None)
    with limit_calls(calls):
        if probe_endpoint:
            announce(loaded.score)
        try:
            probed = loaded.probe(endpoint=probe_endpoint)
        except GuardrailError as error:
            raise GuardrailError(f"{guardrail} is refused: {error}") from error
    config, signature = loaded.config, loaded.signature
    content = {
        "schema": "calibrail.verify/1",
        "guardrail": str(guardrail),
        "digest": config.digest,
        "detector": loaded.scale.column or config.score.name,
        "verdict": config.headline.verdict,
        "signature": None if signature is None else signature.to_dict(),
        "signed": signature is not None or signature_path(guardrail).exists(),
        "probes": probed.to_dict(),
    }
    show.finish(lines(content), content)
