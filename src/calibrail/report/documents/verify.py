"""What does ``calibrail verify`` say of a guardrail that it does not refuse?"""

from collections.abc import Mapping
from typing import Any, Final

from calibrail.phrases import count

_NOT_COMPARED: Final = {
    "column": "no probes: the score stands in the data, and no machine computes it",
    "endpoint": "no probes compared: the detector asks an endpoint, which was not asked "
    "(--probe-endpoint)",
    "skipped": "no probes compared, and no detector built (--no-probe)",
}


def lines(content: Mapping[str, Any]) -> list[str]:
    """Return what is said, a line each.

    Parameters
    ----------
    content : mapping
        What ``calibrail verify --json`` prints.
    """
    if content["signature"] is not None:
        signed = f"signed by the key {content['signature']['keyid']}"
    elif content["signed"]:
        signed = "its signature was not verified: name the key that you trust (--key)"
    else:
        signed = "not signed"
    built = content["probes"]["state"] != "skipped"
    return [
        f"{content['guardrail']}: not a byte has changed; digest {content['digest']}",
        signed,
        f"detector {content['detector']}" + ": the one that was frozen" * built,
        *_probes(content["probes"]),
        f"{content['verdict']} when calibrated",
    ]


def of_several(content: Mapping[str, Any]) -> list[str]:
    """Return what is said of several files, those that are refused last.

    Parameters
    ----------
    content : mapping
        What ``calibrail verify --json`` prints of more than one file.
    """
    kept = [item for item in content["files"] if "refused" not in item]
    refused = [item for item in content["files"] if "refused" in item]
    said = []
    for item in kept:
        first, *more = lines(item)
        said += [first, *(f"  {text}" for text in more)]
    said += [f"REFUSED {item['guardrail']}: {item['refused']}" for item in refused]
    return [*said, f"{len(kept):,} of {count(len(content['files']), 'guardrail')} verified"]


def _probes(probes: Mapping[str, Any]) -> list[str]:
    state = probes["state"]
    if state in _NOT_COMPARED:
        return [_NOT_COMPARED[state]]
    if state == "unprobed":
        return [
            f"NOT PROBED: none of the {probes['n']} probe answers has a score ({probes['why']}); "
            "nothing shows that this machine computes what was certified"
        ]
    undefined = f", {probes['n_undefined']} of them undefined as then" * bool(probes["n_undefined"])
    of = f" of {', '.join(probes['members'])}" * bool(probes["members"])
    # Of members, and of a guardrail of sentences, there are more scores than answers.
    noun = "probe answer" if not of and probes["n"] == 16 else "probe score"
    said = [
        f"{count(probes['n'], noun)}{of}{undefined}: this "
        f"machine computes what was frozen (largest difference "
        f"{probes['largest_difference']:.1g}, tolerance {probes['tolerance']:g})"
    ]
    if state == "members":
        said.append(f"the rest: {_NOT_COMPARED['endpoint']}")
    if probes["differ"]:
        said.append(f"versions that differ, though the scores agree: {probes['differ']}")
    return said
