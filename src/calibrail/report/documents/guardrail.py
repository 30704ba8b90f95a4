"""What does a frozen guardrail say about itself?"""

from calibrail.phrases import count, number, percent
from calibrail.report.blocks import Facts, Json, Tile
from calibrail.report.document import Document
from calibrail.report.phrases import estimate, interval, share
from calibrail.settings.promise import OF_THIS_THRESHOLD


def document(config: Json) -> Document:
    """Return what was frozen, and what was known of it then.

    Parameters
    ----------
    config : mapping
        The content of the guardrail's file.
    """
    headline, calibration, data = (config[name] for name in ("headline", "calibration", "data"))
    promise, verdict = config["promise"], headline["verdict"]
    threshold = calibration["threshold"] if config["chosen"] is None else config["chosen"]
    limit = headline["max_fpr"]
    delta = f", delta {promise['delta']:g}" if promise["guarantee"] in OF_THIS_THRESHOLD else ""
    facts = [
        ("Detector", str(config["score"]["name"])),
        ("Threshold", "flags everything" if threshold is None else number(threshold, 6)),
        ("Promise", f"alpha {promise['alpha']:g}, {promise['guarantee']}{delta}"),
        ("Calibrated on", f"{data['source']} ({count(data['n_examples'], 'answer')})"),
        ("Digest", str(config["digest"])),
    ]
    return Document(
        "guardrail of",
        subject=str(config["score"]["name"]),
        headline=verdict.capitalize(),
        verdict=verdict,
        summary=f"When it was calibrated: {headline['reason']}",
        tiles=(
            Tile(
                "Caught",
                share(headline["coverage"]),
                interval(headline["coverage"]),
                f">= {percent(headline['min_coverage'])}",
            ),
            Tile(
                "False alarms",
                share(headline["fpr"]),
                interval(headline["fpr"]),
                "" if limit is None else f"<= {percent(limit)}",
            ),
            Tile("AUROC", estimate({"estimate": headline["auroc"]})),
        ),
        blocks=(Facts(facts),),
        footer="Every number on this page is in the guardrail's file.",
    )
