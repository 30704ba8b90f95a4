"""What surrounds labelling for a verdict: the look that begins it, the page that ends it."""

from pathlib import Path
from typing import Any

from calibrail.labelling.folder import GUARDRAIL
from calibrail.labelling.plan import SessionPlan
from calibrail.report.documents.labelled import begun_before
from calibrail.workflow.certify_labels import certify_labels, write_verdict
from calibrail.workflow.label_looks import begin_look, looks_beside
from calibrail.workflow.label_start import known_at_start


def look_first(
    plan: SessionPlan, labels: Path, guardrail: Path | None
) -> tuple[Path | None, list[str]]:
    """Keep that labelling has begun; return who keeps it, and what a person should know before."""
    if plan.purpose != "certify":
        return None, []
    looks = looks_beside(plan, guardrail)
    earlier = begin_look(labels, looks)
    said = [begun_before(earlier)] if earlier else []
    return looks, [*said, *known_at_start(plan)]


def verdict_of_labels(
    labels: Path, guardrail: Path | None, looks: Path | None, *, fresh: bool
) -> tuple[dict[str, Any], Path]:
    """Write the verdict and its page; return it with the reason where it is withheld, and the page.

    Parameters
    ----------
    labels : Path
        The folder.
    guardrail : Path or None
        The frozen guardrail; the folder's copy where it is not named.
    looks : Path or None
        The file of looks at the guardrail.
    fresh : bool
        Whether the user says that these answers are new.
    """
    result = certify_labels(guardrail, labels, looks=looks, fresh=fresh)
    page = write_verdict(result, labels)
    withheld = result.sequential is not None and result.verdict != result.sequential["verdict"]
    reason = result.certificate.reason if withheld else None
    return {"verdict": result.verdict, "withheld": reason}, page


def guardrail_to_name(plan: SessionPlan, guardrail: Path | None, labels: Path) -> Path:
    """Return the file that the next command names: beside it stand the looks at it."""
    begun = None if plan.guardrail_file is None else Path(plan.guardrail_file)
    if guardrail is None and begun is not None and begun.exists():
        return begun
    return guardrail or labels / GUARDRAIL
