# Where each public name is defined: type checkers read this, and so does __init__.py.

from calibrail.guardrail.decision_log.writer import DecisionLog as DecisionLog
from calibrail.guardrail.decision_log.writer import Entry as Entry
