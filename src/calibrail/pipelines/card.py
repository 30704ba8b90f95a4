"""The card of a guardrail: what is known of it, on one page."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any, Final

from calibrail.atomic_files import write_atomically
from calibrail.conformal.group_thresholds import columns_of_groups, reads_length
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.outputs import Output, refuse_foreign
from calibrail.errors import CalibrailError, GuardrailError, InputError, file_errors
from calibrail.formatting import ShownContent
from calibrail.guardrail.decision import Decision
from calibrail.guardrail.file import FileOrigin, FrozenConfig, read_file
from calibrail.guardrail.probes import Probed, not_computed
from calibrail.guardrail.runtime import Guardrail
from calibrail.guardrail.signing import signature_path
from calibrail.models.llm.chat import RemoteModel
from calibrail.options import fields
from calibrail.report import Document, render_markdown, render_page
from calibrail.report.documents import card as words
from calibrail.report.html import render_badge
from calibrail.report.messages import say
from calibrail.scores.base import Score
from calibrail.scores.registry import ScoreSpec, build_frozen, runs_code

SCHEMA: Final = "calibrail.card/1"

#: How a card is written, by its file's ending.
ENDINGS: Final = {".html": "html", ".md": "markdown", ".svg": "badge"}


def explanation(guardrail: Guardrail, answer: Example, decision: Decision) -> dict[str, Any]:
    """Return what the document "explain" of a decision takes beside the decision's content."""
    one = guardrail.rule.groups is None and decision.threshold is not None
    known = (guardrail.rule.calibration.scores, guardrail.scale) if one else None
    name = guardrail.scale.column or guardrail.score.name
    return {"score": name, "answer": answer, "known": known}


@dataclass(frozen=True, slots=True, repr=False)
class GuardrailCard(ShownContent):
    """A guardrail on one page.

    Attributes
    ----------
    content : mapping
        What ``guardrail card --json`` prints: schema, the day it was ``made``, ``file``,
        ``signature``, ``probes``, ``reads``, and the ``guardrail`` without its long lists of
        scores and digests.
    """

    content: Mapping[str, Any]

    shown_as = "card"

    def document(self) -> Document:
        """Return what the page says, for any renderer."""
        return words.document(self.content)

    def html(self) -> str:
        """Return one self-contained page."""
        return render_page(self.document())

    def markdown(self) -> str:
        """Return the same as Markdown."""
        return render_markdown(self.document())

    def badge(self) -> str:
        """Return the verdict and what is certified as a small SVG for a README."""
        return render_badge(*words.badge(self.content))

    def save(self, path: str | PathLike[str], *, force: bool = False) -> Path:
        """Write the card as a page or as Markdown, or its badge, by the file's ending.

        Raises
        ------
        InputError
            If the ending is none of ``.html``, ``.md`` and ``.svg``, or what stands there is no
            page of calibrail; ``force`` replaces it.
        DataError
            If it cannot be written.
        """
        path = fields.path(path, "path")
        content = getattr(self, ENDINGS[ending(path)])()
        refuse_foreign([Output("", path, kind="page")], force=force)
        with file_errors(f"cannot write {path}", "; name another place"):
            write_atomically(path, content.encode("utf-8", "replace"))
        return path


def ending(path: Path) -> str:
    """Return what a card's file ends in, or refuse an ending that is no card's.

    >>> ending(Path("card.HTML"))
    '.html'
    """
    if (suffix := path.suffix.lower()) not in ENDINGS:
        raise InputError(say("refused.ending_of_a_card", path=path))
    return suffix


def card(
    guardrail: Guardrail | str | PathLike[str],
    *,
    trusted: Sequence[str | PathLike[str]] | None = None,
) -> GuardrailCard:
    """Return what is known of a guardrail, on one page to attach to a change request.

    Of a file only the content is looked at: the detector is not needed, and no model is loaded.

    Parameters
    ----------
    guardrail : Guardrail or path
        The frozen guardrail, or its file.
    trusted : sequence of path, optional
        Public keys (PEM), one of which must have signed the file. A loaded guardrail knows whose
        signature was verified when it was loaded.

    Returns
    -------
    Card
        Its ``save`` writes ``card.html``, ``card.md`` or the badge ``card.svg``.

    Raises
    ------
    GuardrailError
        If the file cannot be read, was changed, or is not signed by one of the keys.
    """
    score: Score | None
    origin: FileOrigin | None
    probed: Probed | None
    if isinstance(guardrail, Guardrail):
        if trusted is not None:
            raise InputError(say("refused.trusted_is_for_files"))
        config, score, origin = guardrail.config, guardrail.score, guardrail.origin
        unsigned, probed = "unknown", guardrail.probed
    else:
        path = fields.path(guardrail, "guardrail")
        config, origin = read_file(path, trusted)
        score = None
        unsigned, probed = "not verified" if signature_path(path).exists() else "none", None
    # Only its code, or the library's, can tell what it reads and sends.
    foreign = runs_code(ScoreSpec(config.score.name, config.score.params))
    score = _build_detector(config) if score is None and not foreign else score
    signature = origin and origin.signature
    return GuardrailCard(
        {
            "schema": SCHEMA,
            "made": datetime.now(UTC).date().isoformat(),
            "file": {"name": origin and origin.path.name, "sha256": origin and origin.sha256},
            "signature": {
                "state": "verified" if signature else unsigned,
                "keyid": signature and signature.keyid,
            },
            "probes": _probes(config, score, probed),
            "reads": None if score is None or foreign else _reads(config, score),
            "guardrail": _shortened(config),
        }
    )


def _build_detector(config: FrozenConfig) -> Score | None:
    """Return the detector without its models; None where this version cannot build it."""
    try:
        return build_frozen(ScoreSpec(config.score.name, config.score.params))
    except GuardrailError:
        raise
    except CalibrailError:
        # Of another version of calibrail: loading says so, and the card says what the file holds.
        return None


def _reads(config: FrozenConfig, score: Score) -> dict[str, list[str]]:
    """Return which texts and columns a decision needs, and where they are sent."""
    columns = [*getattr(score, "columns", ()), *columns_of_groups(config.promise.by)]
    models = [item for item in getattr(score, "models", ()) if isinstance(item, RemoteModel)]
    needed = {*score.requires, *(("response",) if reads_length(config.promise.by) else ())}
    return {
        "texts": [name for name in TEXT_FIELDS if name in needed],
        "columns": list(dict.fromkeys(columns)),
        "endpoints": sorted({item.endpoint for item in models}),
    }


def _probes(config: FrozenConfig, score: Score | None, probed: Probed | None) -> dict[str, Any]:
    """Return how many probes are frozen and whether they agree here, or why there are none."""
    held = config.probes
    scores = [] if held is None else held.known()
    why = None if score is None else not_computed(score)
    if held is not None:
        why = "endpoint" if held.scores is None else None
    return {
        "n": len(scores),
        "n_defined": sum(value is not None for value in scores),
        "set": None if held is None else held.set,
        "agreed": probed is not None and probed.state in ("agree", "members"),
        "why": why,
    }


def _shortened(config: FrozenConfig) -> dict[str, Any]:
    """Return the file's content with the number of items in place of its long lists."""
    content: dict[str, Any] = json.loads(config.to_bytes())
    data, score, groups = content["data"], content["score"], content["groups"]
    calibrations = [content["calibration"], content["upper"]]
    if groups is not None:
        calibrations += [groups["fallback"], *groups.get("groups", {}).values()]
        if "groups" not in groups:
            del groups["covered"]
            groups["thresholds"] = len(groups["thresholds"])
    for calibration in filter(None, calibrations):
        for name in ("scores", "clusters", "weights"):
            calibration.pop(name, None)
    for name in ("probability", "traffic"):
        content.pop(name, None)
    data["calibration_examples"] = len(data["calibration_examples"])
    for name in ("looked_at", "sketches"):
        data.pop(name, None)
    state = config.score.state_bytes()
    score["state_bytes"] = None if score.pop("state") is None else len(state or b"")
    return content
