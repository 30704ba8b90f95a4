"""What does a task do that stops, fails or dies where a test wants it to?

Files of its folder say so: ``hold-PHASE`` lets every shard stop in that phase until the file is
gone, ``hold-PHASE-SHARD`` one of them; ``die-PHASE-SHARD``, ``eat-SHARD`` and ``raise-SHARD`` hold
how many times that happens. Who stops leaves ``held-PHASE-SHARD`` with its process and the node.
"""

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

PHASES = ("read", "score", "write")


@dataclass(frozen=True)
class ToyTask:
    """Doubles a column; ``folder`` holds what is to happen."""

    folder: Path
    key: str = "70"

    def __setstate__(self, state: Any) -> None:
        # Where it is unpickled is where it runs: there it stops within reading and writing, too.
        for name, value in zip(("folder", "key"), state.values(), strict=True):
            object.__setattr__(self, name, value)
        if (self.folder / "unpickled").exists():
            raise ValueError("not here")
        pq.read_table = self._stops_first("read", pq.read_table)
        os.replace = self._stops_first("write", os.replace)

    def __getstate__(self) -> dict[str, Any]:
        return {"folder": self.folder, "key": self.key}

    def __call__(self, table: pa.Table) -> pa.Table:
        values = table["value"].to_pylist()
        shard = table["shard"][0].as_py()
        self._reach("score", shard)
        if self._happens(f"raise-{shard}"):
            raise ValueError(f"shard {shard} is poisoned")
        if self._happens(f"eat-{shard}"):
            self._eat()
        return table.append_column("double", pa.array([2 * value for value in values]))

    def _stops_first(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def stopping(source: Any, *rest: Any, **options: Any) -> Any:
            path = Path(rest[0] if rest else source)
            if path.suffix == ".parquet" and path.is_relative_to(self.folder):
                self._reach(phase, int(path.stem if phase == "read" else path.parent.name))
            return function(source, *rest, **options)

        return stopping

    def _reach(self, phase: str, shard: int) -> None:
        import ray

        if self._happens(f"die-{phase}-{shard}"):
            os.kill(os.getpid(), signal.SIGKILL)
        holds = [self.folder / f"hold-{phase}", self.folder / f"hold-{phase}-{shard}"]
        if any(hold.exists() for hold in holds):
            where = {"pid": os.getpid(), "node": ray.get_runtime_context().get_node_id()}
            partial = self.folder / f"partial-{phase}-{shard}"
            partial.write_text(json.dumps(where))
            partial.rename(self.folder / f"held-{phase}-{shard}")
        while any(hold.exists() for hold in holds):
            time.sleep(0.05)

    def _happens(self, what: str) -> bool:
        plan = self.folder / what
        left = int(plan.read_text()) if plan.exists() else 0
        if left:
            plan.write_text(str(left - 1))
        return left > 0

    @staticmethod
    def _eat() -> None:
        eaten = []
        while True:
            if len(eaten) < 80:
                eaten.append(b"x" * 50_000_000)
            time.sleep(0.05)
