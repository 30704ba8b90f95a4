"""How is a result shown: the document of each command, the terminal and the page."""

from calibrail.report.compare_figures import compare_picture, draw_compare
from calibrail.report.compare_page import render_compare_html
from calibrail.report.compare_terminal import print_compare
from calibrail.report.diagnosis import print_diagnosis
from calibrail.report.document import Document
from calibrail.report.render_console import print_document
from calibrail.report.render_html import render_page

__all__ = [
    "Document",
    "compare_picture",
    "draw_compare",
    "print_compare",
    "print_diagnosis",
    "print_document",
    "render_compare_html",
    "render_page",
]
