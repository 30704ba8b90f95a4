"""What is said of a result that rests on a part of the source?"""

from calibrail.phrases import count
from calibrail.report.blocks import Json


def part_note(part: Json | None) -> tuple[str, ...]:
    """Return on which part of the source a result rests: a sentence, or none.

    Parameters
    ----------
    part : mapping or None
        What ``Reading.part`` returns.
    """
    if part is None:
        return ()
    first = "" if part["limit"] is None else f"the first {count(part['limit'], 'row')}"
    if part["sample"] is None:
        return (
            f"Only {first} of the source were read (--limit); the others need not be like them.",
        )
    of = f"{first} of the source" if first else f"the source's {count(part['drawn_from'], 'row')}"
    whole = (
        f", as whole groups, whatever their size, so that it is about {part['sample']:,}"
        if part["whole_groups"]
        else ""
    )
    return (
        f"Only a part of the source was read (--sample {part['sample']}): "
        f"{count(part['rows'], 'row')} drawn by lot (seed {part['sample_seed']}) from {of}{whole}.",
    )
