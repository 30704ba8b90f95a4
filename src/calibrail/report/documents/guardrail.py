"""What does a frozen guardrail say about itself?"""

from collections.abc import Iterator

from calibrail.phrases import count, number
from calibrail.report.blocks import Facts, Json, Tile
from calibrail.report.document import Document
from calibrail.report.documents import measures
from calibrail.report.documents.unit_words import by_sentence, unit_words
from calibrail.report.phrases import estimate
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
    delta = f", delta {promise['delta']:g}" if promise["guarantee"] in OF_THIS_THRESHOLD else ""
    facts = [
        ("Detector", str(config["score"]["name"])),
        ("Threshold", _limit(threshold, unit_words(config).acts)),
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
        tiles=tuple(_tiles(config)),
        blocks=(Facts(facts),),
        footer="Every number on this page is in the guardrail's file.",
    )


def _limit(threshold: float | None, acts: str) -> str:
    return f"{acts} everything" if threshold is None else number(threshold, 6)


def _tiles(config: Json) -> Iterator[Tile]:
    """Yield what was measured, beside what was asked."""
    headline = config["headline"]
    asked = {**headline, "min_kept": config["requirement"].get("min_kept")}
    rates = measures.trim_rates if by_sentence(config) else measures.rates
    yield from measures.tiles(rates(headline, asked))
    name = "AUROC by sentence" if by_sentence(config) else "AUROC"
    yield Tile(name, estimate({"estimate": headline["auroc"]}))
