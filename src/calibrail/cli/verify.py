"""``calibrail verify``: is this what was certified and signed, and does this machine compute it?"""

from pathlib import Path
from typing import Annotated, Any

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.output import DONE, FAILURE
from calibrail.cli.probing import announce
from calibrail.errors import CalibrailError, GuardrailError, InputError


@opt.takes_settings
def run(
    guardrails: Annotated[
        list[Path],
        typer.Argument(
            metavar="GUARDRAIL...",
            help="Files that `calibrail export` wrote; NAME.dsse stands for the file it signs.",
        ),
    ],
    key: opt.Keys = None,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe/--no-probe",
            help="Build the detector and compute the probe answers; without, no model is loaded.",
        ),
    ] = True,
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
    """Verify guardrails: every byte, with --key who signed them, and what this machine computes.

    The scores of 16 probe answers were frozen with each; they are computed again. Exit code 0
    verified, 1 where one is refused, with the reason and the versions on both sides.
    """
    from calibrail.models.call_limits import limit_calls
    from calibrail.report.documents.verify import lines, of_several

    if probe_endpoint and not probe:
        raise InputError("--probe-endpoint asks about the probe answers; leave out --no-probe")
    given = guardrails if isinstance(guardrails, list) else [guardrails]
    paths = list(dict.fromkeys(map(_signed_file, given)))
    with limit_calls(calls):
        if len(paths) == 1:
            content = _verified(paths[0], key, probe, probe_endpoint)
            show.finish(lines(content), content)
        found = []
        for path in paths:
            try:
                found.append(_verified(path, key, probe, probe_endpoint))
            except CalibrailError as error:
                found.append({"guardrail": str(path), "refused": str(error)})
    several = {"schema": "calibrail.verify_several/1", "files": found}
    refused = any("refused" in item for item in found)
    show.finish(of_several(several), several, code=FAILURE if refused else DONE)


def _signed_file(path: Path) -> Path:
    """Return the guardrail of a signature; a change of either is checked alike."""
    return path.with_suffix("") if path.suffix == ".dsse" else path


def _verified(path: Path, key: list[Path] | None, probe: bool, endpoint: bool) -> dict[str, Any]:
    """Return what is known of one guardrail that is not refused."""
    from calibrail.guardrail.file import read_file
    from calibrail.guardrail.signing import signature_path
    from calibrail.scale import Scale

    probes: dict[str, Any] = {"state": "skipped"}
    if probe:
        loaded = calibrail.Guardrail.load(path, trusted=key or None)
        if endpoint:
            announce(loaded.score)
        try:
            probes = loaded.probe(endpoint=endpoint).to_dict()
        except GuardrailError as error:
            raise GuardrailError(f"{path} is refused: {error}") from error
        config, signature = loaded.config, loaded.signature
    else:
        file = read_file(path, key or None)
        config, signature = file.config, file.origin.signature
    spec = {"name": config.score.name, "params": config.score.params}
    return {
        "schema": "calibrail.verify/1",
        "guardrail": str(path),
        "digest": config.digest,
        "detector": Scale.of(spec).column or config.score.name,
        "verdict": config.headline.verdict,
        "signature": None if signature is None else signature.to_dict(),
        "signed": signature is not None or signature_path(path).exists(),
        "probes": probes,
    }
