"""``calibrail export``: from a run to a frozen guardrail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

import typer

import calibrail
from calibrail.cli import options as opt
from calibrail.cli.probing import announce
from calibrail.guardrail.keys import read_private_key
from calibrail.guardrail.signing import signature_path
from calibrail.phrases import count, number
from calibrail.settings.option import setting

if TYPE_CHECKING:
    from calibrail.guardrail.frozen import Probes


@dataclass(frozen=True, slots=True)
class Failing:
    """What becomes of answers that cannot be judged."""

    on_failure: Literal["error", "flag", "review"] = setting(
        "Outcome for an answer on which the detector fails.", "error"
    )


@opt.takes_settings
def run(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a calibrate run.")],
    output: Annotated[
        Path,
        opt.to_file("Guardrail file to write."),
    ],
    failing: Failing,
    sign: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY.pem", help="Private key to sign with; the signature is FILE.dsse."
        ),
    ] = None,
    probe_endpoint: Annotated[
        bool,
        typer.Option(
            "--probe-endpoint", help="Ask a judge's endpoint about the 16 probe answers, too."
        ),
    ] = False,
    *,
    calls: opt.Calls,
    show: opt.ShowAlone,
) -> None:
    """Freeze a run into one file that decides in production as it did when it was tested.

    The file holds the detector's spec and weights digest, the threshold, the calibration scores
    and the report's headline; no text. A run that was rejected can be exported too: the file
    says so. The detector scores 16 probe answers, so that another machine can show that it
    computes the same.
    """
    from calibrail.guardrail.probed import other_versions
    from calibrail.guardrail.probes import not_computed
    from calibrail.models.call_limits import limit_calls
    from calibrail.models.machine import installed_versions

    if sign is not None:
        # A key that cannot sign is refused before the work.
        read_private_key(sign)
    frozen = calibrail.Run.load(run_folder)
    with limit_calls(calls):
        guardrail = frozen.freeze(on_failure=failing.on_failure)
        asks = not_computed(guardrail.score) == "endpoint"
        if asks and probe_endpoint:
            announce(guardrail.score)
            guardrail = frozen.freeze(on_failure=failing.on_failure, probe_endpoint=True)
    guardrail.save(output, sign=sign)
    unprobed = changed = ""
    probes = guardrail.config.probes
    if asks and not probe_endpoint:
        other = " but those of its members that ask none" * (probes is not None)
        unprobed = (
            f"no probes{other}: the detector asks an endpoint; with --probe-endpoint it is asked "
            "about 16 answers, and a machine or model that answers otherwise is found later"
        )
    elif probes is not None and probes.scores is not None:
        unprobed = _undefined(probes.scores, probes)
    if differ := other_versions(frozen.versions, installed_versions()):
        changed = f"the run was scored with other versions than are frozen now: {differ}"
    config, beside = guardrail.config, signature_path(output)
    signed = f"signed: {beside}" if sign is not None else ""
    if sign is None and beside.exists():
        signed = f"{beside} is the signature of an earlier file; sign this one too (--sign)"
    content = {
        "schema": "calibrail.export/1",
        "guardrail": str(output),
        "digest": config.digest,
        "signature": None if sign is None else str(beside),
        "probes": 0 if probes is None else len(probes.known()),
    }
    thresholds, headline = _thresholds(guardrail), config.headline
    verdict, detector = headline.verdict, guardrail.scale.column or config.score.name
    show.finish(
        [f"{output}: {detector}, {thresholds}; {verdict} when calibrated"],
        content,
        "" if verdict == "certified" else f"this guardrail is not certified: {headline.reason}",
        unprobed,
        changed,
        signed,
        f"next: calibrail check {quote(str(output))} TRACES -o decisions.jsonl",
    )


def _undefined(scores: Sequence[float | None], probes: Probes) -> str:
    """Say where the probes show nothing: no score at all, or a detector that failed."""
    why = next(iter(probes.reasons.values()), "")
    if all(value is None for value in scores):
        return (
            f"NOT PROBED: none of the {len(scores)} probe answers has a score ({why}), so that no "
            "machine can show that it computes the same; verify and serve will say so"
        )
    if not (failed := list(probes.errors)):
        return ""
    return (
        f"the detector failed on {count(len(failed), 'probe answer')} of {len(scores)} "
        f"({probes.reasons[failed[0]]}); these compare nothing"
    )


def _thresholds(guardrail: calibrail.Guardrail) -> str:
    """Say in a few words how the guardrail decides."""
    from calibrail.conformal.group_keys import spelled

    rule, scale, by = guardrail.rule, guardrail.scale, guardrail.config.promise.by
    threshold = rule.calibration.threshold if rule.chosen is None else rule.chosen
    stops = f"{number(scale.shown(threshold), 6)} or {'lower' if scale.negated else 'higher'}"
    if rule.groups is not None:
        stops = f"its own threshold in {rule.groups.described} of {spelled(by)}, {stops} elsewhere"
    if rule.flag_above is None:
        acts = "removes sentences" if guardrail.unit == "sentence" else "flags"
        return f"{acts} at {stops}"
    return f"reviews at {stops}, flags {scale.suspicious} {number(scale.shown(rule.flag_above), 6)}"
