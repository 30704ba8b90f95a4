"""What does a guardrail promise, and what not, in plain words?"""

from collections.abc import Iterator

from calibrail.conformal.group_keys import spelled
from calibrail.phrases import listed, percent
from calibrail.report.blocks import Json
from calibrail.report.phrases import plain


def trims(config: Json) -> bool:
    """Return whether sentences are removed, and not whole answers flagged."""
    return bool(config["promise"].get("unit") == "sentence")


def seen_on(config: Json) -> str:
    """Return what the answers are called that the figures of the file are about."""
    return "audited answers" if config["data"]["format"] == "audit" else "held-out answers"


def promises(config: Json) -> Iterator[str]:
    """Say in plain words what the thresholds keep, whatever the detector."""
    promise, risks = config["promise"], config["requirement"]["risks"]
    if risks:
        sure = percent(config["requirement"]["confidence"])
        yield (
            f"With {sure} confidence its threshold keeps all of these at once, on answers like "
            f"those it was calibrated on: {listed([plain(risk) for risk in risks])}."
        )
        return
    caught = percent(1.0 - promise["alpha"])
    catches = (
        "It removes every unsupported sentence of at least"
        if trims(config)
        else "It catches at least"
    )
    done = "freed" if trims(config) else "caught"
    where = ""
    if promise["by"] is not None:
        own = "a threshold of its own" if isinstance(promise["by"], str) else "enough examples"
        where = f" in each group of {plain(spelled(promise['by']))} with {own}"
    elif promise["clustered"] or "clusters" in config["calibration"]:
        where = ", for an answer from a new group (a question, a source)"
    match promise["guarantee"]:
        case "pac":
            sure = percent(1.0 - (promise["delta"] or 0.0))
            yield (
                f"{catches} {caught} of hallucinated answers{where}. This holds for "
                f"this very threshold with {sure} confidence (guarantee: pac)."
            )
        case "anytime":
            sure = percent(1.0 - (promise["delta"] or 0.0))
            yield (
                f"{catches} {caught} of hallucinated answers{where}. This holds with "
                f"{sure} confidence for this very threshold and for every other one that was or "
                "will be made as more labels come in (guarantee: anytime)."
            )
        case "paper":
            yield (
                f"It follows the paper's rule for catching {caught} of hallucinated answers"
                f"{where}, which catches slightly less on average (guarantee: paper)."
            )
        case _:
            yield (
                f"{catches} {caught} of hallucinated answers{where}, on average over "
                "calibrations like this one (guarantee: marginal). This very threshold may catch "
                f"somewhat more or less; what it {done} on held-out answers stands below."
            )
    if promise["beta"] is not None:
        yield (
            f"It flags at most {percent(promise['beta'])} of faithful answers, in the same sense; "
            "what it sends to review comes on top."
        )
    price = "removing more sentences" if trims(config) else "flagging more answers"
    yield f"This holds whatever the detector is: a poor one keeps it, too, by {price}."


def limits(config: Json) -> Iterator[str]:
    """Say what must not be read into the promise."""
    promise, headline = config["promise"], config["headline"]
    yield (
        "Nothing for answers from elsewhere: it holds where the model, the retriever, the prompts, "
        "topics and language are those it was calibrated on, answers are independent of each "
        "other, and labels are right. When one of these changes, certify it again on fresh labels."
    )
    if trims(config):
        yield (
            "Nothing about a single answer: it is about the share of hallucinated answers that are "
            "freed of all unsupported sentences, and what is shown of one may hold another."
        )
        yield (
            "Nothing about how much is left: supported sentences go, too, and how many was "
            f"measured on {seen_on(config)} alone."
        )
        if headline["verdict"] != "certified":
            yield _uncertified(config)
        return
    yield (
        "Nothing about a single answer: it is about the share of hallucinated answers that are "
        "caught, and one that passes may be hallucinated. How many of those that pass are depends "
        "on how many answers are hallucinated in the first place."
    )
    if promise["beta"] is None and not config["requirement"]["risks"]:
        measured = f"they were measured on {seen_on(config)} alone"
        if headline["max_fpr"] is not None and headline["verdict"] == "certified":
            measured = f"what is known of them is the verdict above, on {seen_on(config)}"
        yield f"False alarms are not part of the promise: {measured}."
    if headline["verdict"] != "certified":
        yield _uncertified(config)


def _uncertified(config: Json) -> str:
    return f"It is not certified: {seen_on(config)} do not show that it meets what was asked."
