"""Do the rows of a table of sentences stand in the order in which a column numbers them?"""

from collections.abc import Sequence

from calibrail.data.by_sentence import sentences_of
from calibrail.data.example import Example
from calibrail.data.mark_look import NumberedRows


class NumberLook:
    """Looks for a column that numbers the sentences of answers, and for rows that defy it.

    A column numbers them where it counts them from 0 or 1 in every other answer or more, whatever
    the order of its rows.

    Parameters
    ----------
    names : sequence of str
        The columns that sentences carry.
    """

    def __init__(self, names: Sequence[str]) -> None:
        # Answers, those that it counts, and those unsorted, with a gap, with a number twice.
        self._seen = {name: [0, 0, 0, 0, 0] for name in names}

    def add(self, example: Example) -> None:
        """Take an answer with the cells of its sentences."""
        places = sentences_of(example)
        if len(places) < 2:
            return
        for name in list(self._seen):
            cells = [item.columns.get(name) for item in places]
            numbers = [cell for cell in cells if isinstance(cell, float) and cell.is_integer()]
            if len(numbers) < len(cells) or min(numbers) < 0:
                del self._seen[name]
                continue
            n_different = len(set(numbers))
            whole = n_different == len(numbers)
            seen = self._seen[name]
            seen[0] += 1
            seen[1] += whole and min(numbers) <= 1 and max(numbers) - min(numbers) < len(numbers)
            seen[2] += numbers != sorted(numbers)
            seen[3] += min(numbers) > 1 or max(numbers) - min(numbers) >= n_different
            seen[4] += not whole

    def finish(self) -> tuple[NumberedRows, ...]:
        """Return the columns that number sentences, and how many answers are out of order."""
        return tuple(
            NumberedRows(name, n, unsorted, gaps, twice)
            for name, (n, counted, unsorted, gaps, twice) in self._seen.items()
            if counted and 2 * counted >= n
        )
