"""Which versions of which libraries computed the scores?"""

import importlib.metadata
from typing import Final

#: Distributions whose version is recorded, since they can change a score.
RECORDED: Final = (
    "calibrail",
    "numpy",
    "scipy",
    "scikit-learn",
    "nupunkt",
    "tokenizers",
    "torch",
    "transformers",
    "sentence-transformers",
)


def installed_versions() -> dict[str, str]:
    """Return the versions of the libraries that can change a score, without importing them."""
    versions = {}
    for name in RECORDED:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
