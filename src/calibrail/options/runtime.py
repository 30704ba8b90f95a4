"""EngineOptions, ServeOptions, WatchOptions."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal

from calibrail.errors import InputError
from calibrail.options import fields
from calibrail.options.fields import setting
from calibrail.serialization import Record

EngineName = Literal["local", "processes", "ray"]


def read_workers(text: str) -> int | tuple[int, int]:
    """Return the number that ``4`` stands for, or the least and the most of ``1,4``.

    >>> read_workers("4"), read_workers("1,4")
    (4, (1, 4))
    """
    counts = fields.numbers(text, int)
    if len(counts) == 1:
        return counts[0]
    if len(counts) == 2:
        return counts[0], counts[1]
    raise InputError(f"workers must be a number, or the least and the most, as 1,4; got {text!r}")


@dataclass(frozen=True)
class EngineOptions:
    """Where scoring runs. The engine changes no verdict, and no value beyond its tolerance.

    Attributes
    ----------
    engine : {"local", "processes", "ray"}
        This process, processes of this machine, or a Ray cluster.
    workers : int, (int, int) or None
        Processes, or actors of Ray, that score at the same time; of Ray also the least and the
        most, between which the pool grows. None for one a core.
    shards : Path or None
        Folder that keeps the scores of finished shards and ``manifest.json``. The same command
        computes none of them again, and another one uses those that it needs.
    shard_rows : int
        Answers a shard at most; fewer where their texts are long.
    ray_address : str or None
        Address of a Ray cluster; None starts one on this machine for the run.
    gpus : float
        GPUs that each actor of Ray takes; 0.5 lets two share one.

    Raises
    ------
    InputError
        If a value is outside its domain, or is said of another engine.
    """

    panel: ClassVar = "Where it runs"

    engine: EngineName = setting(default="local")
    workers: int | tuple[int, int] | None = setting(default=None, metavar="N", parse=read_workers)
    shards: Path | None = setting(default=None, metavar="DIR", writes="shards")
    shard_rows: int = setting(default=4096, metavar="N")
    ray_address: str | None = setting(default=None, metavar="ADDRESS")
    gpus: float = setting(default=0.0, metavar="F")

    def __post_init__(self) -> None:
        fields.one_of(self.engine, EngineName, "engine")
        fields.replace_checked(self, shards=fields.path, shard_rows=fields.count)
        self._check_workers()
        gpus = fields.number(self.gpus, "gpus")
        if gpus < 0.0 or (gpus > 1.0 and gpus != int(gpus)):
            raise InputError(f"gpus must be a fraction or a whole number; got {self.gpus!r}")
        for name, foreign in (("ray_address", self.ray_address), ("gpus", gpus or None)):
            if foreign is not None and self.engine != "ray":
                given = fields.spell_option(EngineOptions, name)
                engine = fields.spell_option(EngineOptions, "engine")
                raise InputError(f"{given} is for {engine} ray; the engine is {self.engine}")

    def _check_workers(self) -> None:
        if self.workers is None:
            return
        if self.engine == "local":
            workers = fields.spell_option(EngineOptions, "workers")
            engine = fields.spell_option(EngineOptions, "engine")
            raise InputError(f"{workers} is for {engine} processes or ray")
        if isinstance(self.workers, tuple):
            least, most = (fields.count(number, "workers") for number in self.workers)
            if self.engine != "ray" or least > most:
                raise InputError.on("workers_range", workers=self.workers)
        else:
            fields.count(self.workers, "workers")

    @property
    def apart(self) -> bool:
        """Whether scores are computed shard by shard, each as if there were no other."""
        return self.engine != "local" or self.shards is not None


@dataclass(frozen=True, slots=True)
class ServeOptions(Record):
    """Where a service listens, and its limits.

    Attributes
    ----------
    host : str
        Address to bind.
    port : int
        Port to bind; 0 for a free one.
    workers : int
        Processes, each with the guardrails, and a queue, of its own.
    max_batch : int
        Most answers that are scored together.
    queue : int
        Most answers of a process that wait or are scored; beyond it requests are refused (429).
    deadline : float
        Seconds from a request's arrival to its decisions. What has none by then is decided by the
        guardrail's failure policy.
    max_body : int
        Bytes of a request's body at most.
    read_timeout : float
        Seconds that a request's headers may take to arrive, and its body as many again.
    drain : float
        Seconds that what was accepted has to be finished in when the service is stopped.
    log : Path or None
        Folder of the decision log.
    log_sync : bool
        Whether a line is on disk before its decision is given.
    log_text : bool
        Whether lines hold the texts that were judged.
    log_heads : Path or None
        File, best on another machine's disk, that gets the hash of each process's last line.
    monitor : Path or None
        Folder in which what is logged is watched.
    base_rate : float or None
        As in ``WatchOptions``, for each watch.
    tokens : Path or None
        File of the clients that may ask: a line each, name, token, and requests a minute.
    allow_rollback : bool
        Whether a guardrail may decide that was signed before the one that decided last.

    Raises
    ------
    InputError
        If a value is outside its domain.
    """

    panel: ClassVar = "Service"

    host: str = setting(default="127.0.0.1", metavar="ADDRESS")
    port: int = setting(default=8000)
    workers: int = setting(default=1, metavar="N")
    max_batch: int = setting(default=64, metavar="N")
    queue: int = setting(default=1024, metavar="N")
    deadline: float = setting(default=30.0, metavar="SECONDS")
    max_body: int = setting(default=2**20, metavar="BYTES")
    read_timeout: float = setting(default=10.0, metavar="SECONDS")
    drain: float = setting(default=30.0, metavar="SECONDS")
    log: Path | None = setting(default=None, metavar="DIR")
    log_sync: bool = setting(default=False)
    log_text: bool = setting(default=False)
    log_heads: Path | None = setting(default=None, metavar="FILE")
    monitor: Path | None = setting(default=None, metavar="DIR")
    base_rate: float | None = setting(default=None)
    tokens: Path | None = setting(default=None, metavar="FILE")
    allow_rollback: bool = setting(default=False)

    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host:
            raise InputError(f"host must be an address, e.g. 127.0.0.1; got {self.host!r}")
        if fields.whole(self.port, "port") > 65535:
            raise InputError(f"port must be at most 65535; got {self.port}")
        for name in ("workers", "max_batch", "queue", "max_body"):
            fields.count(getattr(self, name), name)
        for name in ("deadline", "read_timeout", "drain"):
            fields.seconds(getattr(self, name), name)
        for name in ("log_sync", "log_text", "allow_rollback"):
            fields.yes_or_no(getattr(self, name), name)
        paths = dict.fromkeys(("monitor", "log", "log_heads", "tokens"), fields.path)
        fields.replace_checked(self, base_rate=fields.share, **paths)
        self._require(("log_sync", "log_text", "log_heads", "monitor"), "log", "decision log")
        self._require(("base_rate",), "monitor", "watch")

    def _require(self, names: Sequence[str], needed: str, about: str) -> None:
        given = [name for name in names if getattr(self, name)]
        if given and getattr(self, needed) is None:
            spelled = fields.spell_option(ServeOptions, given[0], getattr(self, given[0]))
            folder = fields.spell_option(ServeOptions, needed, "DIR")
            raise InputError(f"{spelled} is about the {about}; name its folder: {folder}")


#: What answers may be grouped by: fields of the lines of a decision log.
WatchedBy = Literal["group", "language"]

#: The most rows of a stream that serve as its reference: a quarter of them is kept in the state
#: until it is complete, and the state stays small. A reference of its own may be of any length.
MOST_REFERENCE: Final = 20_000


@dataclass(frozen=True, slots=True)
class WatchOptions(Record):
    """What a watch compares with what, and what it promises about false alarms.

    Attributes
    ----------
    reference : int
        Answers at the start of the watch, and after each alarm, that later ones are compared with.
    arl : int
        Mean number of answers to a false alarm about traffic, at least.
    delta : float
        The promise is said to be broken falsely, ever, with at most this probability; of all
        answers or, where it was made for each group and these are watched, of any of them. Where
        many drawn answers share a question that is not known, more often than that.
    seed : int
        Of the draws that break ties between equal values; same seed, same bytes.
    by : {"group", "language"}, optional
        Whether the promise is watched in each group, or language, of the log, too.
    base_rate : float, optional
        Share of hallucinated answers in traffic, where the labelled answers were drawn by label:
        of the class that is too frequent among them, fewer are compared with. Left out, the one
        that the guardrail was calibrated for, or that of its labelled answers.

    Raises
    ------
    InputError
        If a value is outside its domain.
    """

    panel: ClassVar = "Watch"

    reference: int = setting(default=1_000, metavar="N")
    arl: int = setting(default=100_000, metavar="N")
    delta: float = setting(default=0.05)
    seed: int = setting(default=0)
    by: WatchedBy | None = setting(default=None, metavar="FIELD")
    base_rate: float | None = setting(default=None)

    def __post_init__(self) -> None:
        if fields.whole(self.reference, "reference", least=2) > MOST_REFERENCE:
            raise InputError.on("reference_long", most=MOST_REFERENCE, n=self.reference)
        fields.count(self.arl, "arl")
        fields.replace_checked(self, delta=fields.share, base_rate=fields.share)
        fields.whole(self.seed, "seed")
        if self.by is not None:
            fields.one_of(self.by, WatchedBy, "by")
