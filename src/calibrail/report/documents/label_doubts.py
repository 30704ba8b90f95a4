"""What makes the labels themselves doubtful, whatever they say?"""

from calibrail.phrases import count
from calibrail.report.blocks import Json
from calibrail.report.documents.labelled import gone
from calibrail.report.phrases import p_value

#: Chance below which labels made elsewhere do not seem to be those that a lot chose.
_UNLIKELY = 0.05


def doubts(certificate: Json) -> list[str]:
    """Say what is doubtful about the labels that a verdict rests on.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --labels --json`` prints.
    """
    found, texts = certificate["sequential"], []
    if (balance := found["balance"]) is not None and balance["p"] < _UNLIKELY:
        texts.append(
            f"the labels made elsewhere ({balance['labelled']:,}) stand for about "
            f"{balance['estimate']:,.0f} traces by their probabilities, and there are "
            f"{balance['traces']:,}, which chance explains badly (p {p_value(balance['p'])}): see "
            "that no answer that the lot chose was left out, and that the probabilities are its own"
        )
    for name, n in found["lost"].items():
        there = found["annotators"].get(name, 0)
        texts.append(gone(n, f" of {name} ({there:,} are there)"))
    if n := found["n_undone_decided"]:
        texts.append(
            f"{count(n, 'label')} {'was' if n == 1 else 'were'} taken back when a verdict had "
            "fallen: one that falls with other labels in their place is not what was agreed on"
        )
    both = found["agreement"] or {}
    if n := both.get("settled_by_one_of_them"):
        texts.append(
            f"{n:,} of {count(both['settled'], 'disagreement')} {'was' if n == 1 else 'were'} "
            "settled by one of the two who disagreed: let somebody else settle "
            "(--settle --annotator)"
        )
    return texts
