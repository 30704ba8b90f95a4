"""What is known before the first label that will keep labels from deciding?"""

from calibrail.conformal.sequential_planning import fewest_drawn
from calibrail.labelling.plan import SessionPlan
from calibrail.report.documents import label_start as words
from calibrail.settings import Drawing


def known_at_start(plan: SessionPlan) -> list[str]:
    """Return what a person should know before labelling, in words; nothing where all is well."""
    if plan.requirement is None:
        return []
    notes = []
    if plan.traces.freshness == "unknown":
        notes.append(words.unknown_origin())
    # The default floor would do with fewer; without a guess all answers are labelled.
    others = {
        "--floor 0.1": Drawing("active", 0.1, plan.drawing.whole_groups),
        "--design uniform": Drawing(whole_groups=plan.drawing.whole_groups),
    }
    needed = fewest_drawn(plan.requirement, plan.drawing)
    instead = {name: fewest_drawn(plan.requirement, other) for name, other in others.items()}
    notes += words.too_few(
        needed,
        plan.traces.n,
        floors=None if plan.drawing.design == "uniform" else plan.drawing.floors,
        instead={name: pair for name, pair in instead.items() if sum(pair) < sum(needed) / 2},
    )
    return notes
