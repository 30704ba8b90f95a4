"""How does the service listen, how much does it take at once, and how long may that last?"""

from dataclasses import dataclass
from pathlib import Path

from calibrail.errors import InputError
from calibrail.record import Record
from calibrail.settings.checks import number, path, whole, yes_or_no
from calibrail.settings.option import option_of, setting


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
    monitor : Path or None
        Folder in which what is logged is watched.

    Raises
    ------
    InputError
        If a value is outside its domain.
    """

    host: str = setting("Address to bind.", "127.0.0.1", metavar="ADDRESS")
    port: int = setting("Port to bind; 0 for a free one.", 8000)
    workers: int = setting("Processes, each with guardrails of its own.", 1, metavar="N")
    max_batch: int = setting("Most answers that are scored together.", 64, metavar="N")
    queue: int = setting("Most answers of a process that may wait.", 1024, metavar="N")
    deadline: float = setting(
        "Longest until an answer is decided, by the failure policy if need be.",
        30.0,
        metavar="SECONDS",
    )
    max_body: int = setting("Largest request body.", 2**20, metavar="BYTES")
    read_timeout: float = setting(
        "Longest that headers, and then the body, may take to arrive.", 10.0, metavar="SECONDS"
    )
    drain: float = setting(
        "Longest to finish what was accepted, when stopped.", 30.0, metavar="SECONDS"
    )
    log: Path | None = setting("Folder of the decision log.", None, metavar="DIR")
    log_sync: bool = setting("Have each line on disk before its decision is given.", False)
    log_text: bool = setting("Keep the texts in the log, too.", False)
    monitor: Path | None = setting(
        "Watch in this folder what is logged, as monitor --follow does.", None, metavar="DIR"
    )

    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host:
            raise InputError(f"host must be an address, e.g. 127.0.0.1; got {self.host!r}")
        if whole(self.port, "port") > 65535:
            raise InputError(f"port must be at most 65535; got {self.port}")
        for name in ("workers", "max_batch", "queue", "max_body"):
            whole(getattr(self, name), name, least=1)
        for name in ("deadline", "read_timeout", "drain"):
            if not 0.0 < number(getattr(self, name), name) < float("inf"):
                raise InputError(
                    f"{name} must be a number of seconds above 0; got {getattr(self, name)!r}"
                )
        yes_or_no(self.log_sync, "log_sync")
        yes_or_no(self.log_text, "log_text")
        if self.monitor is not None:
            object.__setattr__(self, "monitor", path(self.monitor, "monitor"))
        if self.log is not None:
            object.__setattr__(self, "log", path(self.log, "log"))
        elif self.log_sync or self.log_text:
            given = option_of(ServeOptions, "log_sync" if self.log_sync else "log_text", True)
            folder = option_of(ServeOptions, "log", "DIR")
            raise InputError(f"{given} is about the decision log; name its folder: {folder}")
        elif self.monitor is not None:
            given = option_of(ServeOptions, "monitor", self.monitor)
            folder = option_of(ServeOptions, "log", "DIR")
            raise InputError(f"{given} reads the decision log; name its folder: {folder}")
