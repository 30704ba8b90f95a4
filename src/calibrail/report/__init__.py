"""How is a result shown: the document of each command, the terminal, the page and Markdown."""

from calibrail.report.document import Document
from calibrail.report.render_console import print_document
from calibrail.report.render_html import render_page
from calibrail.report.render_markdown import render_markdown

__all__ = ["Document", "print_document", "render_markdown", "render_page"]
