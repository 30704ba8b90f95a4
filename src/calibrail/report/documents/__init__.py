"""Documents of results: what a page, a terminal or a comment shows of each."""

from importlib import import_module
from typing import Any, Final

from calibrail.report.document import Document

#: The module and the function that build the document of a result, by its kind; of any other kind
#: it is `document` of the module of its name.
BUILDERS: Final = {
    "audit_sample": ("label", "audit_sample_document"),
    "check": ("decisions", "check_document"),
    "export": ("guardrail", "export_document"),
    "explain": ("examples", "explained"),
    "guardrail": ("guardrail", "guardrail_document"),
    "label": ("label", "label_document"),
    "labelled": ("label", "document"),
    "log": ("guardrail", "log_document"),
    "repeat": ("agree", "repeat_document"),
    "score": ("decisions", "score_document"),
    "select": ("decisions", "select_document"),
    "verify": ("guardrail", "verify_document"),
    "versus": ("agree", "versus_document"),
    "watch": ("monitor", "document"),
}


def build_document(kind: str, *content: Any, **details: Any) -> Document:
    """Return the document of a result; the module that builds it is loaded when it is asked for."""
    module, function = BUILDERS.get(kind, (kind, "document"))
    build = getattr(import_module(f"calibrail.report.documents.{module}"), function)
    document: Document = build(*content, **details)
    return document
