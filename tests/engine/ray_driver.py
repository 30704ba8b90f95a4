"""Which process computes the shards of a folder on a cluster? ``python -m tests.engine.ray_driver``

Its arguments are the folder and the fields of the options as JSON; it prints an outcome a line.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from calibrail.engine.ray import run_on_ray
from calibrail.engine.shards import Job
from calibrail.errors import CalibrailError
from calibrail.options.runtime import EngineOptions
from tests.engine.toy_task import ToyTask


def jobs_of(folder: Path) -> Iterator[Job]:
    """Yield what is to be done of the shards in the folder."""
    paths = sorted((folder / "inputs").glob("*.parquet"), key=lambda path: int(path.stem))
    for path in paths:
        result = folder / "results" / path.stem / "70.parquet"
        yield Job(int(path.stem), ToyTask(folder), path, result, 1)


def main() -> None:
    folder, options = Path(sys.argv[1]), EngineOptions(engine="ray", **json.loads(sys.argv[2]))
    try:
        for outcome in run_on_ray(jobs_of(folder), options):
            print(json.dumps(asdict(outcome)), flush=True)
    except CalibrailError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
