"""How is a result shown: the terminal and the page."""

from calibrail.report.diagnosis import print_diagnosis
from calibrail.report.html import render_compare_html, render_html
from calibrail.report.terminal import print_certificate, print_compare, print_report

__all__ = [
    "print_certificate",
    "print_compare",
    "print_diagnosis",
    "print_report",
    "render_compare_html",
    "render_html",
]
