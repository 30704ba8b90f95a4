"""Package."""

from calibrail.report.document import Document
from calibrail.report.html import render_page
from calibrail.report.markdown import render_markdown
from calibrail.report.terminal import print_document

__all__ = ["Document", "print_document", "render_markdown", "render_page"]
