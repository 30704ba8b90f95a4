"""What weakens a certificate, in words?"""

from collections.abc import Iterator

from calibrail.phrases import count
from calibrail.report.blocks import Json
from calibrail.report.documents.data_notes import known_as_copies
from calibrail.report.documents.unit_words import by_sentence
from calibrail.report.phrases import group_label


def withheld(freshness: str) -> str:
    """Say why there is no certificate on answers that may have set the threshold."""
    if freshness == "calibration data":
        return (
            "The bounds would do, but this is the data that the guardrail was calibrated on, "
            "and a certificate needs answers that neither it nor its report has seen."
        )
    return (
        "The bounds would do, but it cannot be told whether these rows set the threshold: they "
        "have neither texts nor ids that the calibration had too, and what they hold does not tell "
        "them apart. Give every row its id, the same in both files, or say that they are new "
        "(--fresh)."
    )


#: What a verdict on such answers rests on.
DECLARED = (
    "The answers are taken as new because --fresh says so: the rows do not tell whether they set "
    "the threshold."
)


def certify_warnings(certificate: Json, *, same_file: bool, policy: str) -> Iterator[str]:
    """Say what weakens a certificate.

    Parameters
    ----------
    certificate : mapping
        What ``calibrail certify --json`` prints.
    same_file : bool
        Whether the data is the file that the guardrail was calibrated on.
    policy : str
        What the guardrail does with answers without a score.
    """
    if n := certificate["n_seen_before"]:
        yield (
            f"left out, since the threshold was set by them: {count(n, 'answer')}; certify on data "
            "that the calibration has not seen"
        )
    if same_file:
        yield (
            "this is the very file that the guardrail was calibrated on: its test half has "
            "been looked at, and its faithful answers share questions with the calibration "
            "half; a certificate needs fresh data"
        )
    copies = certificate["copies"]
    if copies["n"]:
        yield (
            f"{count(copies['n'], 'answer')} were taken for copies ("
            f"{count(copies['n_groups'], 'group')} of up to {copies['largest']:,}; "
            f"{known_as_copies(copies)}): one of each class counts, unless --assume-independent "
            "counts all of them"
        )
    if n := certificate["n_set_aside"]:
        yield (
            f"{count(n, 'answer')} did not count: another answer of the same group (a question, a "
            "source, copies of an answer) and class did, and answers of one group are not "
            "independent"
        )
    trims = by_sentence(certificate)
    if n := certificate["n_errors"]:
        fate = f"not passed{', so as freed, and keep nothing' if trims else ''}"
        yield f"the detector failed on {count(n, 'answer')}, which count as {fate}"
    if n := certificate["n_undefined"]:
        without = f"{count(n, 'answer')} without a score"
        if trims:
            sentences = count(certificate["n_undefined_sentences"], "sentence")
            without = f"{sentences} without a score, in {count(n, 'answer')}"
        yield f"{without}; the guardrail's policy is {policy}"
    # Groups may be rejected although the verdict about all answers together is not.
    rows = certificate["by_group"]["rows"] if certificate["by_group"] else ()
    rejected = [group_label(row["group"]) for row in rows if row["verdict"] == "rejected"]
    if rejected and certificate["verdict"] != "rejected":
        names = ", ".join(rejected)
        yield f"the verdict is about all answers together; rejected by itself: {names}"
