"""How is a time of the stream written?"""

import math
from datetime import UTC, datetime


def moment(seconds: float | None) -> str | None:
    """Return seconds since 1970 as RFC 3339 in UTC; None where the time is not known.

    >>> moment(86_400.5), moment(None)
    ('1970-01-02T00:00:00Z', None)
    """
    if seconds is None or not math.isfinite(seconds):
        return None
    try:
        return datetime.fromtimestamp(math.floor(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return None
