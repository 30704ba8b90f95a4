"""Which process computes the shards of a folder on a cluster? ``python -m tests.engine.ray_driver``

Its arguments are the folder and the fields of the options as JSON; it prints an outcome a line.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from calibrail.engine.ray import run_on_ray
from calibrail.errors import CalibrailError
from calibrail.settings.engine import EngineOptions
from tests.engine.toy_task import ToyTask


def inputs_of(folder: Path) -> list[tuple[int, Path, Path]]:
    """Return number, input and result of each shard in the folder."""
    paths = sorted((folder / "inputs").glob("*.parquet"), key=lambda path: int(path.stem))
    return [(int(path.stem), path, folder / "results" / path.stem / "70.parquet") for path in paths]


def main() -> None:
    folder, options = Path(sys.argv[1]), EngineOptions(engine="ray", **json.loads(sys.argv[2]))
    try:
        for outcome in run_on_ray(ToyTask(folder), inputs_of(folder), options):
            print(json.dumps(asdict(outcome)), flush=True)
    except CalibrailError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
