"""Is a verdict one test in XML, whatever its texts hold?"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from calibrail.report import Document
from calibrail.report.document import Bullet, Verdict
from calibrail.report.markdown import render_junit

HOSTILE = "]]><x a='\"&amp;\x00\x1b[31m\ud800\uffff"


@pytest.mark.parametrize(
    ("verdict", "tag"),
    [("certified", None), ("rejected", "failure"), ("inconclusive", "skipped"), ("", None)],
)
def test_a_verdict_is_one_test(verdict: Verdict, tag: str | None) -> None:
    document = Document("certificate of", HOSTILE, "The end", verdict, HOSTILE)
    warned = Document(
        "certificate of", HOSTILE, "The end", verdict, HOSTILE, warnings=[Bullet(HOSTILE)]
    )
    for given in (document, warned):
        (suite,) = ElementTree.fromstring(render_junit(given).encode("utf-8"))
        (case,) = suite
        assert suite.attrib["tests"] == "1"
        assert (suite.attrib["failures"] == "1") == (tag == "failure")
        assert (suite.attrib["skipped"] == "1") == (tag == "skipped")
        assert [child.tag for child in case] == ([tag] if tag else []) + ["system-out"]
        assert case.attrib["name"].startswith("certificate of ]]><x a='\"&amp;")
        assert ("warning: ]]>" in str(case[-1].text)) == (given is warned)
