"""Export, keygen, verify, card, explain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

import calibrail
from calibrail.cli import parameters as opt
from calibrail.cli.output import DONE, FAILURE, announce, file_to_write
from calibrail.errors import CalibrailError, GuardrailError, InputError
from calibrail.formatting import count, number
from calibrail.guardrail.signing import PASSPHRASE, make_keys, read_private_key, signature_path
from calibrail.options.fields import setting

if TYPE_CHECKING:
    from calibrail.guardrail.file import Probes


@dataclass(frozen=True, slots=True)
class Failing:
    """What becomes of answers that cannot be judged."""

    on_failure: Literal["error", "flag", "review"] = setting(
        "Outcome for an answer on which the detector fails.", "error"
    )


@opt.takes_settings
def export_command(
    run_folder: Annotated[
        Path, typer.Argument(metavar="RUN", help="Folder of a calibrate export_command.")
    ],
    output: Annotated[Path, opt.to_file("Guardrail file to write.")],
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
    from calibrail.guardrail.probes import not_computed, other_versions
    from calibrail.models.hardware import installed_versions
    from calibrail.models.llm.transport import limit_calls

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
    from calibrail.conformal.groups import spelled

    rule, scale, by = guardrail.rule, guardrail.scale, guardrail.config.promise.by
    threshold = rule.calibration.threshold if rule.chosen is None else rule.chosen
    stops = f"{number(scale.shown(threshold), 6)} or {'lower' if scale.negated else 'higher'}"
    if rule.groups is not None:
        stops = f"its own threshold in {rule.groups.described} of {spelled(by)}, {stops} elsewhere"
    if rule.flag_above is None:
        acts = "removes sentences" if guardrail.unit == "sentence" else "flags"
        return f"{acts} at {stops}"
    return f"reviews at {stops}, flags {scale.suspicious} {number(scale.shown(rule.flag_above), 6)}"


@opt.takes_settings
def keygen_command(
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


@opt.takes_settings
def verify_command(
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
    from calibrail.models.llm.transport import limit_calls
    from calibrail.report.documents.guardrail import lines, of_several

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
    from calibrail.formatting import Scale
    from calibrail.guardrail.file import read_file
    from calibrail.guardrail.signing import signature_path

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


@opt.takes_settings
def card_command(
    guardrail: opt.Guardrail,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Page to write: .html, or Markdown: .md.",
            callback=file_to_write,
        ),
    ] = None,
    key: opt.Keys = None,
    *,
    show: opt.ShowAlone,
) -> None:
    """Say on one page what a guardrail does, promises and does not promise, and where it is from.

    Reads its file alone: no model is loaded, and the detector need not be on this machine. With
    --key a file that is not signed by one of the keys is refused, and gets no card.
    """
    from calibrail.pipelines.card import ending

    if output is not None:
        ending(output)
    made = calibrail.card(guardrail, trusted=key or None)
    if output is None:
        show.finish("card", made.to_dict())
    made.save(output)
    show.finish([f"{output}: the card of {guardrail}"], made.to_dict())


@dataclass(frozen=True, slots=True)
class AnswerArguments:
    """The answer, and what is known of it."""

    response: str = setting("The answer.", metavar="TEXT")
    question: str = setting("The question.", "", metavar="TEXT")
    contexts: tuple[str, ...] = setting(
        "A retrieved chunk. Repeatable, in their order.", (), flag="context", metavar="TEXT"
    )
    samples: tuple[str, ...] = setting(
        "A further answer to the question. Repeatable.", (), flag="sample", metavar="TEXT"
    )
    columns: Mapping[str, str] | None = setting(
        "A cell that the guardrail reads. Repeatable.", None, flag="column", metavar="COL=VALUE"
    )


@opt.takes_settings
def explain_command(
    guardrail: opt.Guardrail, answer: AnswerArguments, trust: opt.TrustArguments, show: opt.Show
) -> None:
    """Decide about one answer and show why: which sentence, which chunk, with which weight.

    Exit code 0 whatever the decision is, and 1 where the detector failed.
    """
    loaded = trust.load(guardrail)
    example = calibrail.Example(**asdict(answer) | {"columns": dict(answer.columns or {})})
    (decision,) = loaded.decide([example], alone=True)
    code = FAILURE if decision.outcome == "error" else DONE
    content = {"schema": "calibrail.explain/1", **decision.to_dict(evidence=True)}
    show.finish("explain", content, code=code, score=loaded.scale.column or loaded.score.name)
