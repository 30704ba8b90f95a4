"""``calibrail cache``: what endpoints have answered so far, and how it is removed."""

from typing import Annotated

import typer

from calibrail.cli import options as opt
from calibrail.errors import InputError


@opt.takes_settings
def run(
    *,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove answers: all, or those that the options name.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --clear: only this model's.")
    ] = None,
    older_than: Annotated[
        float | None,
        typer.Option(metavar="DAYS", help="With --clear: only those older than so many days."),
    ] = None,
    show: opt.ShowJson,
) -> None:
    """Show the answers of language models that are kept, or clear them.

    They are stored in one SQLite file, in the user's cache folder or where CALIBRAIL_CACHE says:
    digests of the requests, and the replies. A request that is stored is never sent again.
    """
    from datetime import UTC, datetime

    from calibrail.models.answer_cache import AnswerCache
    from calibrail.models.call_limits import default_cache

    if not clear and (model is not None or older_than is not None):
        raise InputError("--model and --older-than say what --clear removes; add --clear")
    if older_than is not None and not 0.0 <= older_than < float("inf"):
        raise InputError(f"--older-than must be a number of days from 0; got {older_than!r}")
    path = default_cache()
    if path is None:
        raise InputError("CALIBRAIL_CACHE=off: no answers are kept")
    cache = AnswerCache(path) if path.exists() else None
    removed = cache.clear(model, older_than) if clear and cache is not None else 0
    kept = [] if cache is None else cache.contents()
    size = 0 if cache is None else cache.size()
    content = {
        "schema": "calibrail.cache/1",
        "path": str(path),
        "bytes": size,
        "removed": removed,
        "models": [item.to_dict() for item in kept],
    }
    lines = [f"removed {removed:,} answers"] if clear else []
    lines.append(f"{path}: {sum(item.n for item in kept):,} answers, {size / 2**20:.1f} MiB")
    for item in kept:
        first, last = (
            datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d")
            for moment in (item.oldest, item.newest)
        )
        lines.append(
            f"  {item.model} at {item.endpoint}: {item.n:,} {item.kind} answers, "
            f"{item.tokens_in:,} tokens in, {item.tokens_out:,} out, {first} to {last}"
        )
    show.finish(lines, content)
