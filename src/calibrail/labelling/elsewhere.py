"""Which answers were labelled elsewhere, with which known probabilities?"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from calibrail.data.delimited import csv_rows
from calibrail.data.rows import Problem
from calibrail.errors import DataError, InputError, file_errors
from calibrail.settings.drawing import Drawing
from calibrail.settings.option import option_of

#: What rounding may take from a probability, and from its being the same for all.
_ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Lots:
    """What a file says about the labels of answers.

    Attributes
    ----------
    path : Path
        The file.
    sha256 : str
        Of its bytes.
    rows : mapping of str to mapping
        By id: ``label`` as it stands there, ``probability``, and ``where`` it stands. Answers
        without a label were not labelled.
    weighted : bool
        Whether answers were to be labelled with different probabilities.
    """

    path: Path
    sha256: str
    rows: Mapping[str, Mapping[str, Any]]
    weighted: bool

    def fell(self, id: str, least: float) -> tuple[float, bool]:
        """Return with which probability an answer was to be labelled, and whether it was.

        Raises
        ------
        InputError
            It was labelled with a lower probability than the least one that counts.
        """
        row = self.rows.get(id)
        if row is None:
            return least, False
        if not self.weighted:
            # Of equal ones those that were labelled are a uniform sample themselves.
            return 1.0, True
        if row["probability"] < least - _ROUNDING:
            raise InputError(
                f"{row['where']}: the probability of {id!r} is {row['probability']:g}, below the "
                f"least one that counts, {least:g} (a passed answer needs twice the floor); begin "
                f"in another folder with a lower {option_of(Drawing, 'floor')}"
            )
        return float(row["probability"]), True


def read_lots(path: str | Path, drawing: Drawing) -> Lots:
    """Read labels that were made elsewhere: CSV or JSON lines of id, label and probability.

    Raises
    ------
    DataError
        The file cannot be read.
    InputError
        A row has no probability, or one that is outside its domain or below the floor; an id
        stands there twice; or probabilities differ and the design is ``uniform``.
    """
    place = Path(path)
    with file_errors(f"cannot read {place}", "; name a file of id, label and probability"):
        raw = place.read_bytes()
    rows: dict[str, Mapping[str, Any]] = {}
    for where, row in _rows(place, raw):
        id, label = str(row.get("id") or ""), row.get("label")
        if not id:
            raise InputError(f"{where} has no id; give each row that of its trace")
        if label is None or (isinstance(label, str) and not label.strip()):
            continue
        if id in rows:
            raise InputError(
                f"{where}: {id!r} stands there twice, first in {rows[id]['where']}; keep one"
            )
        share = _probability(row.get("probability"), where)
        rows[id] = {**row, "label": label, "probability": share, "where": where}
    if not rows:
        raise InputError(f"{place} holds no label; give rows of id, label and probability")
    weighted = drawing.design == "active"
    _refuse_at_odds(place, rows, drawing, weighted=weighted)
    return Lots(place, hashlib.sha256(raw).hexdigest(), rows, weighted)


def _refuse_at_odds(
    path: Path, rows: Mapping[str, Mapping[str, Any]], drawing: Drawing, *, weighted: bool
) -> None:
    """Refuse probabilities that do not go with how answers are said to be drawn."""
    shares = [row["probability"] for row in rows.values()]
    if not weighted and max(shares) - min(shares) > _ROUNDING:
        raise InputError(
            f"the probabilities in {path} differ, from {min(shares):g} to {max(shares):g}: add "
            f"{option_of(Drawing, 'design', 'active')}, which weighs them"
        )
    if not weighted and drawing.whole_groups:
        raise InputError(
            f"{path} is a sample of answers, and whole groups were to be drawn; leave out "
            f"{option_of(Drawing, 'whole_groups', True)}"
        )
    low = [row for row in rows.values() if row["probability"] < drawing.floors[0] - _ROUNDING]
    if weighted and low:
        raise InputError(
            f"{low[0]['where']}: probability must be at least {drawing.floor:g}; got "
            f"{low[0]['probability']:g} for {low[0]['id']!r}, and {len(low):,} of {len(rows):,} "
            f"rows lie below: name a lower {option_of(Drawing, 'floor')}, at most half of the "
            "lowest probability of an answer that the guardrail passes"
        )


def _probability(value: Any, where: str) -> float:
    try:
        share = float(value)
    except (TypeError, ValueError):
        share = float("nan")
    if not 0.0 < share <= 1.0:
        raise InputError(
            f"{where}: probability must lie in (0, 1], the one with which the answer was to be "
            f"labelled; got {value!r:.40}. Where it is not known the label cannot count"
        )
    return share


def _rows(path: Path, raw: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each row with where it stands."""
    if raw.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] != b"{":
        for item in csv_rows(path):
            if isinstance(item, Problem):
                raise DataError(f"{path}, row {item.row}: {item.reason}; {item.remedy}")
            yield f"{path}, row {item.number}", item.values
        return
    for number, line in enumerate(raw.decode("utf-8-sig", "replace").split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            content = json.loads(line)
        except ValueError as error:
            raise DataError(f"{where} is not JSON ({error}); correct it") from error
        if not isinstance(content, dict):
            raise DataError(f"{where} must hold an object; got {content!r:.60}")
        yield where, content
