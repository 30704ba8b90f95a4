"""How does a verdict read as the result of a test, as continuous integration shows them?"""

from typing import Final
from xml.etree import ElementTree

from calibrail.report.document import Document
from calibrail.report.sanitize import clean

#: What a verdict is of a test. One that is open is neither passed nor failed.
_OUTCOMES: Final = {"rejected": "failure", "inconclusive": "skipped"}


def render_junit(document: Document) -> str:
    """Return a document's verdict as JUnit XML with one test; without a verdict it has passed.

    Parameters
    ----------
    document : Document
        From ``report.documents``.

    Examples
    --------
    >>> document = Document("certificate of", "g.json", "Rejected", "rejected", "It flags 9%.")
    >>> print(render_junit(document).splitlines()[1][:72])
    <testsuites><testsuite name="calibrail" tests="1" failures="1" skipped="
    """
    outcome = _OUTCOMES.get(document.verdict)
    counts = {"failures": str(int(outcome == "failure")), "skipped": str(int(outcome == "skipped"))}
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", {"name": "calibrail", "tests": "1", **counts})
    named = {"classname": "calibrail", "name": _flat(f"{document.title} {document.subject}")}
    case = ElementTree.SubElement(suite, "testcase", named)
    said = [document.headline, document.summary, *map(_warning, document.warnings)]
    text = "\n".join(_flat(item) for item in said if item)
    if outcome is not None:
        message = _flat(f"{document.headline}. {document.summary}")
        ElementTree.SubElement(case, outcome, {"message": message}).text = text
    ElementTree.SubElement(case, "system-out").text = text
    xml = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{xml}\n'


def _warning(warning: object) -> str:
    return f"warning: {getattr(warning, 'text', warning)}"


def _flat(text: str) -> str:
    return " ".join(clean(text).split())
