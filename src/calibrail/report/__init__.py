"""How is a result shown: the terminal and the page."""

from calibrail.report.compare_figures import compare_picture, draw_compare
from calibrail.report.compare_page import render_compare_html
from calibrail.report.compare_terminal import print_compare
from calibrail.report.diagnosis import print_diagnosis
from calibrail.report.html import render_html
from calibrail.report.terminal import print_certificate, print_report

__all__ = [
    "compare_picture",
    "draw_compare",
    "print_certificate",
    "print_compare",
    "print_diagnosis",
    "print_report",
    "render_compare_html",
    "render_html",
]
