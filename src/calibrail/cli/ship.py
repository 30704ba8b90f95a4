"""Commands that ship a guardrail: export, guardrail verify, guardrail card."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any, Literal

import calibrail
from calibrail.cli import parameters as opt
from calibrail.cli.output import DONE, FAILURE, announce, note, say, signature_note
from calibrail.errors import CalibrailError, GuardrailError, InputError, errors_as
from calibrail.guardrail.signing import PASSPHRASE, make_keys, signature_path
from calibrail.options.fields import setting
from calibrail.working_folder import settle_own_code


@dataclass(frozen=True, slots=True)
class Freezing:
    """What becomes of answers that cannot be judged, what is told of others, and a key to make."""

    on_failure: Literal["error", "flag", "review"] = setting(default="error")
    probability: bool = setting(default=False)
    new_key: Path | None = setting(default=None, metavar="KEY.pem", writes="guardrail")
    probe_endpoint: bool = setting(default=False)


@dataclass(frozen=True, slots=True)
class Probing:
    """Whether probe answers are computed again, by whose code, and whether an endpoint is asked."""

    probe: bool = setting(default=True)
    probe_endpoint: bool = setting(default=False)
    own_code: bool = setting(default=False)
    forbid_own_code: bool = setting(default=False)

    def __post_init__(self) -> None:
        settle_own_code(allowed=self.own_code, forbidden=self.forbid_own_code)
        if self.probe_endpoint and not self.probe:
            raise InputError("--probe-endpoint asks about the probe answers; leave out --no-probe")


def export_command(
    run_folder: Annotated[Path, opt.Word("RUN")],
    output: Annotated[Path, opt.to_file()],
    freezing: Freezing,
    written: opt.NewGuardrail,
    best: Annotated[bool, opt.Word("", ("--best",))] = False,
    *,
    calls: opt.Calls,
    show: opt.ShowAlone,
) -> None:
    """Freeze a run into one file that decides as it was tested.

    The file holds the detector's spec and weights digest, the threshold, the calibration scores
    and the report's headline; no text of an answer. A run that was rejected can be exported too:
    the file says so. Of a comparison the winner is frozen, with the certificate of the half of the
    test set that did not choose it. The detector scores 16 probe answers, so that another machine
    can show that it computes the same.
    """
    if (key := freezing.new_key) is not None and written.sign is not None:
        raise InputError("--sign is for a key that there is, --new-key makes one; give one of them")
    written.read_key(key)
    frozen = calibrail.Run.load(run_folder, best=best)
    made, told = (None, []) if key is None else _made(key)
    written = replace(written, sign=key or written.sign)
    try:
        with calibrail.limit_calls(calls):
            line, content, doubts = freeze_into(output, frozen, written, freezing)
    except Exception:
        # A key that signed nothing would stand in the way of the next one.
        for file in () if made is None else (made["private"], made["public"]):
            Path(file).unlink(missing_ok=True)
        raise
    content |= {} if made is None else {"new_key": made}
    show.finish(
        "export",
        content,
        *(filter(None, (*doubts, *told)) if show.json else ()),
        names={"GUARDRAIL": output},
        line=line,
        doubts=doubts,
        report=frozen.report.to_dict(),
        keys=list(filter(None, told)),
    )


def freeze_into(
    output: Path, frozen: calibrail.Run, written: opt.NewGuardrail, freezing: Freezing | None = None
) -> tuple[str, dict[str, Any], list[str]]:
    """Write a run's guardrail; return what is printed of it, as words and as JSON, and notes."""
    from calibrail.conformal.group_thresholds import spelled
    from calibrail.guardrail.probes import not_computed, other_versions
    from calibrail.models.hardware import installed_versions
    from calibrail.report.text import CONDITIONS

    freezing = freezing or Freezing()
    how: Any = {"on_failure": freezing.on_failure, "probability": freezing.probability}
    guardrail = frozen.freeze(**how)
    asks = not_computed(guardrail.score) == "endpoint"
    if asks and freezing.probe_endpoint:
        announce(guardrail.score)
        guardrail = frozen.freeze(**how, probe_endpoint=True)
    guardrail.save(output, sign=written.sign, force=written.force, terms=written.terms)
    config, probes = guardrail.config, guardrail.config.probes
    unprobed = ""
    if asks and not freezing.probe_endpoint:
        unprobed = say("command.not_asked", some=probes is not None)
    elif probes is not None and probes.scores is not None:
        # Where the probes show nothing: no score at all, or a detector that failed.
        n, why = len(probes.scores), next(iter(probes.reasons.values()), "")
        if all(value is None for value in probes.scores):
            unprobed = say("command.not_probed", n=n, why=why)
        elif failed := list(probes.errors):
            why = probes.reasons[failed[0]]
            unprobed = say("command.probes_failed", n_failed=len(failed), n=n, why=why)
    differ = other_versions(frozen.versions, installed_versions())
    content = {
        "schema": "calibrail.export/1",
        "guardrail": str(output),
        "digest": config.digest,
        "signature": None if written.sign is None else str(signature_path(output)),
        "probes": 0 if probes is None else len(probes.known()),
    }
    rule, scale, headline = guardrail.rule, guardrail.scale, config.headline
    line = say(
        "command.frozen",
        output=output,
        detector=scale.column or config.score.name,
        scale=scale,
        at=rule.calibration.threshold if rule.chosen is None else rule.chosen,
        groups=rule.groups and f"{rule.groups.described} of {spelled(config.promise.by)}",
        flagged=rule.flag_above,
        sentences=guardrail.unit == "sentence",
        verdict=say("guardrail.verdict", **config.standing),
        signature=content["signature"],
    )
    told = headline.verdict == "certified" or not config.asked
    noted = [it for it in frozen.report.warnings if {it.code} & {"compared_before", *CONDITIONS}]
    doubts = [
        "" if told else say("command.not_certified", reason=headline.reason),
        *(item.message for item in noted),
        unprobed,
        say("command.other_versions", differ=differ) if differ else "",
        signature_note(output, None) if written.sign is None else "",
    ]
    return line, content, list(filter(None, doubts))


def _made(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Make a key and its public one; return what is told of them, as JSON and as words."""
    public, keyid, encrypted = make_keys(path)
    content = {"private": str(path), "public": str(public), "keyid": keyid, "encrypted": encrypted}
    words = [
        say("command.private_key", path=path),
        say("command.public_key", path=public, keyid=keyid),
        "" if encrypted else say("command.no_passphrase", variable=PASSPHRASE),
    ]
    return content, words


def keygen_command(output: Annotated[Path, opt.to_file()], show: opt.ShowAlone) -> None:
    """Make a key that signs guardrails, as export --new-key does."""
    note(f"calibrail keygen is now: calibrail export RUN -o g.json --new-key {quote(str(output))}")
    content, words = _made(output)
    show.finish(words[:2], {"schema": "calibrail.keygen/1", **content}, *words[2:])


def guardrail_verify_command(
    guardrails: Annotated[list[Path], opt.Word("GUARDRAIL...")],
    key: opt.Keys = None,
    *,
    probing: Probing,
    calls: opt.Calls,
    show: opt.ShowAlone,
) -> None:
    """Verify guardrails: every byte, who signed, what is computed.

    The scores of 16 probe answers were frozen with each; they are computed again. Exit code 0
    verified, 1 where one is refused, with the reason and the versions on both sides.
    """
    given = guardrails if isinstance(guardrails, list) else [guardrails]
    # A change of a guardrail or of its signature is checked alike.
    files = (path.with_suffix("") if path.suffix == ".dsse" else path for path in given)
    paths = list(dict.fromkeys(files))
    with calibrail.limit_calls(calls):
        if len(paths) == 1:
            show.finish("verify", _verified(paths[0], key, probing))
        found = []
        for path in paths:
            try:
                found.append(_verified(path, key, probing))
            except CalibrailError as error:
                found.append({"guardrail": str(path), "refused": str(error)})
    several = {"schema": "calibrail.verify_several/1", "files": found}
    refused = any("refused" in item for item in found)
    show.finish("verify", several, code=FAILURE if refused else DONE)


def _verified(path: Path, key: list[Path] | None, probing: Probing) -> dict[str, Any]:
    """Return what is known of one guardrail that is not refused."""
    from calibrail.formatting import Scale
    from calibrail.guardrail.file import read_file

    probes: dict[str, Any] = {"state": "skipped"}
    if probing.probe:
        loaded = calibrail.Guardrail.load(path, trusted=key or None)
        if probing.probe_endpoint:
            announce(loaded.score)
        with errors_as(GuardrailError, GuardrailError, "guardrail_refused", path=path):
            probes = loaded.probe(endpoint=probing.probe_endpoint).to_dict()
        config, signature = loaded.config, loaded.signature
    else:
        config, origin = read_file(path, key or None)
        signature = origin.signature
    spec = {"name": config.score.name, "params": config.score.params}
    return {
        "schema": "calibrail.verify/1",
        "guardrail": str(path),
        "digest": config.digest,
        "detector": Scale.of(spec).column or config.score.name,
        **config.standing,
        "signature": None if signature is None else signature.to_dict(),
        "signed": signature is not None or signature_path(path).exists(),
        "probes": probes,
    }


def guardrail_card_command(
    guardrail: opt.Guardrail,
    output: Annotated[Path | None, opt.to_file("page")] = None,
    key: opt.Keys = None,
    *,
    show: opt.ShowAlone,
) -> None:
    """Say on one page what a guardrail promises, and what not.

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
