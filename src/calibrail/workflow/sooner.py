"""How much sooner would an engine's workers be done than one process of this machine?"""

from calibrail.engine.run import SHARD_CHARACTERS
from calibrail.models.machine import cores
from calibrail.settings.engine import EngineOptions
from calibrail.settings.option import option_of


def workers_at_once(options: EngineOptions) -> int | None:
    """Return how many workers can compute at a time; None where only the cluster knows."""
    if options.engine == "local":
        return 1
    asked = options.workers[1] if isinstance(options.workers, tuple) else options.workers
    if options.ray_address is not None or options.gpus:
        return asked
    return min(asked or cores(), cores())


def longest_share(n: int, shard_rows: int, workers: int) -> int:
    """Return how many rows pass until all are done, where workers take whole shards in turn.

    >>> longest_share(3000, 4096, 2), longest_share(9000, 4096, 2), longest_share(16384, 4096, 2)
    (3000, 4904, 8192)
    """
    full, rest = divmod(n, shard_rows)
    # The last shard, if smaller, is done beside full ones unless all of those come out even.
    return -(-full // workers) * shard_rows + (rest if full % workers == 0 else 0)


def times_sooner(
    options: EngineOptions,
    n: int | None,
    characters: float,
    *,
    busy: float = 1.0,
    on_gpu: bool = False,
) -> float:
    """Return how many times sooner the workers are done; below 1 where they are slower.

    Processes of one machine share its cores and its GPU: what keeps all of these busy by itself
    gains nothing. Of a cluster nothing is known, so that its workers count as this process does.

    Parameters
    ----------
    options : EngineOptions
        The engine, which the score can be sent to.
    n : int or None
        About how many answers there are.
    characters : float
        Of an answer with its texts, on average.
    busy : float
        Cores that one process kept busy, at least 1.
    on_gpu : bool
        Whether a GPU computed.
    """
    workers = workers_at_once(options)
    if workers is None or options.engine == "local" or (on_gpu and not options.gpus):
        return 1.0
    gained = float(workers)
    if n:
        rows = max(1, min(options.shard_rows, int(SHARD_CHARACTERS / max(1.0, characters))))
        gained = n / longest_share(n, rows, workers)
    if options.ray_address is None and not options.gpus:
        gained *= min(busy, max(1, cores() // workers)) / busy
    return gained


def what_it_rests_on(options: EngineOptions) -> str:
    """Return what the time that is told of an engine rests on, and leaves out; empty for none."""
    if options.engine == "local":
        return ""
    named = option_of(EngineOptions, "engine", options.engine)
    rows = option_of(EngineOptions, "shard_rows", options.shard_rows)
    cluster = options.ray_address is not None
    return (
        f"the time with {named} is computed from what one process of this machine took, for shards "
        f"of {rows}; the start of the workers comes on top"
        + ("; how fast the cluster's machines are is not known" if cluster else "")
    )
