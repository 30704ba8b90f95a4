"""What does a report say about answers that pass, go to review or are flagged?"""

from calibrail.phrases import number, percent
from calibrail.report.blocks import Json, Section, Text
from calibrail.report.documents.measures import Line, measures_table, share_line
from calibrail.report.phrases import count_of, share


def review(section: Json, confidence: float) -> Section:
    """Show the two promises, what they cost, and what no detector can do."""
    lines = _review_lines(section)
    return Section(
        "Pass, review, flag",
        (
            Text(_review_sentence(section)),
            measures_table("Pass, review, flag on the test part", lines, confidence),
            Text(_feasibility(section)),
        ),
    )


def _review_sentence(section: Json) -> str:
    """Say where answers pass, where they are flagged and what lies between."""
    below = section["pass_below"]
    promises = (
        f"At most {percent(section['alpha'])} of hallucinations are to pass, and at most "
        f"{percent(section['beta'])} of faithful answers to be flagged."
    )
    if section["by_group"]:
        return (
            "An answer passes below its group's threshold; of the others, those above "
            f"{number(section['flag_above'])} are flagged and the rest goes to review. {promises}"
        )
    if below is None:
        return "No answer passes: there were too few hallucinated calibration examples."
    if not section["needs_review"]:
        return (
            f"An answer passes below {number(below)} and is flagged from there on: one threshold "
            "keeps both promises, and nothing needs review."
        )
    return (
        f"An answer passes below {number(below)}, is flagged above "
        f"{number(section['flag_above'])}, and goes to review between the two. {promises}"
    )


def _review_lines(section: Json) -> list[Line]:
    """Return the promises on the test part and what they cost."""
    counts = section["counts"]
    missed, blocked = section["missed"], section["blocked"]
    passed = section["released_hallucinated"]
    return [
        share_line(
            "Hallucinations that pass",
            missed,
            f"<= {percent(section['alpha'])}",
            f"{count_of(missed)}; {section['shown']['pass']}",
        ),
        share_line(
            "Faithful answers flagged",
            blocked,
            f"<= {percent(section['beta'])}",
            f"{count_of(blocked)}; {section['shown']['flag']}",
        ),
        share_line(
            "Sent to review",
            section["review"],
            "",
            f"{counts['hallucinated']['review']:,} hallucinated, "
            f"{counts['faithful']['review']:,} faithful",
        ),
        share_line("Hallucinated among passed", passed, "", count_of(passed)),
    ]


def _feasibility(section: Json) -> str:
    """Say what share any detector has to withhold at the base rate seen."""
    least = section["least_withheld"]
    if least <= 0.0:
        return ""
    return (
        f"{percent(section['base_rate'])} of the test answers are hallucinated. To release answers "
        f"of which at most {percent(section['alpha'])} are, ANY detector, even a perfect one, has "
        f"to withhold at least {percent(least)} of them; this one withholds "
        f"{share(section['withheld'])}. (That share among the released is not promised here.)"
    )
