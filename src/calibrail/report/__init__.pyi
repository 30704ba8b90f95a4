# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.report.document import Document as Document
from calibrail.report.html import render_page as render_page
from calibrail.report.markdown import render_markdown as render_markdown
from calibrail.report.terminal import print_document as print_document
