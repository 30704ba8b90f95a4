"""Where does scoring run, and which of its work is kept?"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from calibrail.errors import InputError
from calibrail.settings.checks import number, one_of, path, whole
from calibrail.settings.option import option_of, setting

EngineName = Literal["local", "processes", "ray"]


def read_workers(text: str) -> int | tuple[int, int]:
    """Return the number that ``4`` stands for, or the least and the most of ``1,4``.

    >>> read_workers("4"), read_workers("1,4")
    (4, (1, 4))
    """
    try:
        counts = [int(part) for part in text.split(",")]
    except ValueError:
        counts = []
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

    engine: EngineName = setting("Where scoring runs.", "local")
    workers: int | tuple[int, int] | None = setting(
        "Processes, or actors of Ray; of these also MIN,MAX. One a core, unless said.",
        None,
        metavar="N",
        parse=read_workers,
    )
    shards: Path | None = setting(
        "Keep the scores of finished shards here; the same command again goes on.",
        None,
        metavar="DIR",
    )
    shard_rows: int = setting("Answers a shard at most.", 4096, metavar="N")
    ray_address: str | None = setting(
        "Ray cluster to run on; one of this machine, unless said.", None, metavar="ADDRESS"
    )
    gpus: float = setting("GPUs that each actor of Ray takes; may be a fraction.", 0.0, metavar="F")

    def __post_init__(self) -> None:
        one_of(self.engine, EngineName, "engine")
        if self.shards is not None:
            object.__setattr__(self, "shards", path(self.shards, "shards"))
        object.__setattr__(self, "shard_rows", whole(self.shard_rows, "shard_rows", least=1))
        self._check_workers()
        gpus = number(self.gpus, "gpus")
        if gpus < 0.0 or (gpus > 1.0 and gpus != int(gpus)):
            raise InputError(f"gpus must be a fraction or a whole number; got {self.gpus!r}")
        for name, foreign in (("ray_address", self.ray_address), ("gpus", gpus or None)):
            if foreign is not None and self.engine != "ray":
                raise InputError(
                    f"{option_of(EngineOptions, name)} is for {option_of(EngineOptions, 'engine')} "
                    f"ray; the engine is {self.engine}"
                )

    def _check_workers(self) -> None:
        if self.workers is None:
            return
        if self.engine == "local":
            raise InputError(
                f"{option_of(EngineOptions, 'workers')} is for "
                f"{option_of(EngineOptions, 'engine')} processes or ray"
            )
        if isinstance(self.workers, tuple):
            least, most = (whole(count, "workers", least=1) for count in self.workers)
            if self.engine != "ray" or least > most:
                raise InputError(
                    "workers of the least and the most are for Ray, the least first; got "
                    f"{self.workers!r}"
                )
        else:
            whole(self.workers, "workers", least=1)

    @property
    def apart(self) -> bool:
        """Whether scores are computed shard by shard, each as if there were no other."""
        return self.engine != "local" or self.shards is not None
