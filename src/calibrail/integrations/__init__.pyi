# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.integrations.gate import Checker as Checker
from calibrail.integrations.gate import Gate as Gate
