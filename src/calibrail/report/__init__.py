"""How is a result shown: the document of each command, the terminal and the page."""

from calibrail.report.document import Document
from calibrail.report.render_console import print_document
from calibrail.report.render_html import render_page

__all__ = ["Document", "print_document", "render_page"]
