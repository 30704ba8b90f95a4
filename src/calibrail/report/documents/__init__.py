"""Documents of results: what a page, a terminal or a comment shows of each."""

from importlib import import_module
from typing import Any, Final

from calibrail.report.document import Document

#: The module and the function that build the document of a result, by its kind.
BUILDERS: Final = {
    "agree": ("agree", "document"),
    "audit": ("audit", "document"),
    "audit_sample": ("label", "audit_sample_document"),
    "calibrate": ("calibrate", "document"),
    "card": ("card", "document"),
    "certify": ("certify", "document"),
    "check": ("decisions", "check_document"),
    "compare": ("compare", "document"),
    "doctor": ("doctor", "document"),
    "explain": ("guardrail", "document"),
    "guardrail": ("guardrail", "guardrail_document"),
    "label": ("label", "label_document"),
    "labelled": ("label", "document"),
    "log": ("guardrail", "log_document"),
    "plan": ("plan", "document"),
    "recalibrate": ("recalibrate", "document"),
    "score": ("decisions", "score_document"),
    "select": ("decisions", "select_document"),
    "shift": ("shift", "document"),
    "watch": ("monitor", "document"),
}


def build_document(kind: str, *content: Any, **details: Any) -> Document:
    """Return the document of a result; the module that builds it is loaded when it is asked for."""
    module, function = BUILDERS[kind]
    build = getattr(import_module(f"calibrail.report.documents.{module}"), function)
    document: Document = build(*content, **details)
    return document
