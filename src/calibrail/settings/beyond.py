"""What does the report of one detector hold beyond the labelled data?"""

from dataclasses import dataclass

from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class Beyond:
    """What a report holds beyond what was measured on labelled answers.

    Attributes
    ----------
    target : str or None
        File of unlabelled answers from production.
    no_text : bool
        Whether questions, contexts and answers stay out of the page.
    """

    target: str | None = setting(
        "Unlabelled production answers: how far do they differ, and what would that change?",
        None,
        metavar="FILE",
    )
    no_text: bool = setting("Keep questions, contexts and answers out of report.html.", False)
