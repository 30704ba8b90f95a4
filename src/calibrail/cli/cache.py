"""``calibrail cache``: what endpoints have answered so far, and how it is removed."""

from dataclasses import dataclass

from calibrail.cli import options as opt
from calibrail.errors import InputError
from calibrail.phrases import count
from calibrail.settings.option import setting


@dataclass(frozen=True, slots=True)
class Clearing:
    """What is removed."""

    clear: bool = setting("Remove answers: all, or those that the options name.", False)
    model: str | None = setting("With --clear: only this model's.", None, metavar="NAME")
    older_than: float | None = setting(
        "With --clear: only those older than so many days.", None, metavar="DAYS"
    )

    def __post_init__(self) -> None:
        days = self.older_than
        if not self.clear and (self.model is not None or days is not None):
            raise InputError("--model and --older-than say what --clear removes; add --clear")
        if days is not None and not 0.0 <= days < float("inf"):
            raise InputError(f"--older-than must be a number of days from 0; got {days!r}")


@opt.takes_settings
def run(clearing: Clearing, show: opt.ShowAlone) -> None:
    """Show the answers of language models that are kept, or clear them.

    They are stored in one SQLite file, in the user's cache folder or where CALIBRAIL_CACHE says:
    digests of the requests, and the replies. A request that is stored is never sent again.
    """
    from datetime import UTC, datetime

    from calibrail.models.answer_cache import AnswerCache
    from calibrail.models.call_limits import default_cache

    path = default_cache()
    if path is None:
        raise InputError("CALIBRAIL_CACHE=off: no answers are kept")
    cache = AnswerCache(path) if path.exists() else None
    removed, kept, size = 0, [], 0
    if cache is not None:
        if clearing.clear:
            removed = cache.clear(clearing.model, clearing.older_than)
        kept, size = cache.contents(), cache.size()
    content = {
        "schema": "calibrail.cache/1",
        "path": str(path),
        "bytes": size,
        "removed": removed,
        "models": [item.to_dict() for item in kept],
    }
    lines = [f"removed {count(removed, 'answer')}"] if clearing.clear else []
    lines.append(f"{path}: {count(sum(item.n for item in kept), 'answer')}, {size / 2**20:.1f} MiB")
    for item in kept:
        first, last = (
            datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
            for moment in (item.oldest, item.newest)
        )
        lines.append(
            f"  {item.model} at {item.endpoint}: {count(item.n, f'{item.kind} answer')}, "
            f"{item.tokens_in:,} tokens in, {item.tokens_out:,} out, {first} to {last}"
        )
    show.finish(lines, content)
