"""What became of comparing a machine with the frozen probe answers?"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Probed:
    """What became of comparing this machine with the frozen scores.

    Attributes
    ----------
    state : {"agree", "members", "unprobed", "column", "endpoint"}
        ``agree``: every probe has its frozen score here. ``members``: so has every member of the
        detector that asks no endpoint, and the endpoint was not asked. ``unprobed``: no probe has a
        score, here as when it was frozen, so that nothing is shown. ``column``: the score is a
        column of the data, and no machine computes anything. ``endpoint``: the detector asks an
        endpoint, which was not asked.
    n, n_undefined : int
        Probe scores compared, and those of them that are undefined, here as when it was frozen.
    largest_difference : float
        Between a frozen score and the one computed here.
    tolerance : float
        How large it may be; of members, the largest.
    frozen, here : mapping of str to str
        Versions, device and precision then and now.
    members : tuple of str
        The members that were compared, for ``members``.
    why : str or None
        Why the first probe has no score, for ``unprobed``.
    """

    state: Literal["agree", "members", "unprobed", "column", "endpoint"]
    n: int = 0
    n_undefined: int = 0
    largest_difference: float = 0.0
    tolerance: float = 0.0
    frozen: Mapping[str, str] | None = None
    here: Mapping[str, str] | None = None
    members: tuple[str, ...] = ()
    why: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON, with ``differ``: the versions that are not alike, in words."""
        return {**asdict(self), "differ": other_versions(self.frozen or {}, self.here or {})}

    def unproven(self) -> str | None:
        """Return that nothing is shown, and why, where no probe has a score; None elsewhere."""
        if self.state != "unprobed":
            return None
        return (
            f"NOT PROBED: none of the {self.n} probe answers has a score ({self.why}), so that "
            "nothing shows that this machine computes what was certified"
        )


def other_versions(frozen: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Return what differs between two machines, with both values; empty where nothing does."""
    return "; ".join(
        f"{name}: frozen {frozen.get(name, 'none')}, here {here.get(name, 'none')}"
        for name in {**frozen, **here}
        if frozen.get(name) != here.get(name)
    )
