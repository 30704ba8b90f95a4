"""What does a person read when the service begins to decide, and when another file takes over?"""

from collections.abc import Iterable
from typing import Final

from calibrail.guardrail.signing import signature_path
from calibrail.phrases import count
from calibrail.serve.guardrails import Loaded
from calibrail.serve.watches import announced
from calibrail.settings.serving import ServeOptions
from calibrail.text.language import languages_known

_NO_PROBES: Final = {
    "column": "no probes: its score stands in the data",
    "endpoint": "no probes compared: its endpoint is not asked about them",
}


def begun(guardrails: Iterable[Loaded], options: ServeOptions) -> list[str]:
    """Return what decides from now on, and where decisions are kept, a line each."""
    lines = []
    for loaded in guardrails:
        lines.append(identity(loaded))
        lines += [
            f"{loaded.name} sends the answers to {endpoint}"
            for endpoint in loaded.guardrail.endpoints
        ]
    if options.log is None:
        return [*lines, "decisions are not logged (--log DIR)"]
    texts = " with the texts" if options.log_text else ""
    synced = ", each on disk before it is given" if options.log_sync else ""
    lines.append(f"decisions are logged{texts} in {options.log}{synced}")
    if not languages_known():
        lines.append("the log tells no languages: pip install 'calibrail[serve]' has what does")
    if options.monitor is not None:
        lines += announced(options.monitor, guardrails)
    return lines


def identity(loaded: Loaded) -> str:
    """Return which guardrail this is, who signed it and how its probes came out, in one line."""
    guardrail = loaded.guardrail
    detector = guardrail.scale.column or guardrail.config.score.name
    signature, probed = guardrail.signature, guardrail.probed
    if signature is not None:
        signed = f"signed by the key {signature.keyid}"
    elif signature_path(loaded.path).exists():
        signed = "its signature was not verified (--trusted PUB.pem)"
    else:
        signed = "not signed"
    if probed is None:
        probes = "no probes compared"
    elif probed.state == "agree":
        # Of sentences there are more scores than answers.
        noun = "probe score" if guardrail.unit == "sentence" else "probe answer"
        probes = f"{count(probed.n, noun)} agree"
    elif probed.state == "members":
        members = f"{count(probed.n, 'probe score')} of {', '.join(probed.members)} agree"
        probes = f"{members}; of the rest {_NO_PROBES['endpoint']}"
    elif (why := probed.unproven()) is not None:
        probes = why
    else:
        probes = _NO_PROBES[probed.state]
    verdict = guardrail.config.headline.verdict
    return f"{loaded.name}: {detector}, {verdict}; {signed}; {probes}; {loaded.digest}"
