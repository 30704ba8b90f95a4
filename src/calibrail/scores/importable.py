"""Which name finds an object of the user's own again, and is it still what it was?"""

import hashlib
import importlib
import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from calibrail.errors import InputError
from calibrail.scores.source_files import modules_in_folder, source_of
from calibrail.working_folder import admit


def import_named(name: str) -> Any:
    """Return the object of ``module:attribute``.

    On the command line its module may stand in the working folder, and so may the modules there
    that its source imports by name (see ``calibrail.working_folder``).

    Raises
    ------
    InputError
        If the name has another form, is one of a running script or of Python itself, or does not
        lead to an object.

    Examples
    --------
    >>> import_named("calibrail.phrases:count").__name__
    'count'
    """
    module, colon, attribute = name.partition(":")
    if module == "__main__" or "<" in attribute:
        raise InputError(
            f"{name} was made in a script, a notebook or another function and is gone with it; "
            "put it into a module that can be imported, and pass it from there"
        )
    if not colon or not all(map(str.isidentifier, (*module.split("."), *attribute.split(".")))):
        raise InputError(
            f"a detector is named module:attribute, e.g. my_detectors:score; got {name!r}"
        )
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise InputError(f"{name} is a part of Python, which holds no detector")
    admit(modules_in_folder(module))
    try:
        found = attrgetter(attribute)(importlib.import_module(module))
    except ModuleNotFoundError as error:
        raise InputError(
            f"the detector {name} cannot be imported: {error}; its module must be installed, or "
            "stand on PYTHONPATH or in the working folder"
        ) from error
    except Exception as error:
        raise InputError(
            f"the detector {name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return found


def name_of(value: Any) -> str:
    """Return the name under which an object was defined, whether or not it leads back to it.

    >>> name_of(lambda example: 0.0)
    'calibrail.scores.importable:<lambda>'
    """
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


def leads_back(name: str, value: Any) -> bool:
    """Return whether a name can be imported, and is that of this very object."""
    try:
        return import_named(name) is value
    except InputError:
        return False


def origin(name: str, value: Any) -> Mapping[str, Any]:
    """Return what tells an importable object from a changed one: its source and its version.

    Returns
    -------
    mapping
        ``source_sha256``, of the file that holds it and of the one that defines it; ``versions``,
        of the packages that these belong to; ``sources``, where several files hold it, the SHA-256
        of each; of a fitted estimator its ``class`` and a digest of
        its ``state``. What the source calls in other files is not among them.
    """
    kind = type(value)
    fitted = hasattr(value, "get_params")
    # A function may be defined elsewhere than where its name leads.
    modules = {name.partition(":")[0], kind.__module__ if fitted else value.__module__}
    # Of a fitted object's class the package's version tells, unless it stands in the same file.
    read = sorted({name.partition(":")[0]} if fitted else modules)
    hasher, sources = hashlib.sha256(), dict[str, str]()
    for module in read:
        if (raw := source_of(module)) is not None:
            hasher.update(raw)
            sources[module] = hashlib.sha256(raw).hexdigest()
    packages = sorted({module.partition(".")[0] for module in modules})
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in packages}
    result: dict[str, Any] = {
        "source_sha256": hasher.hexdigest(),
        "versions": {name: str(known) for name, known in versions.items() if known is not None},
    }
    if len(sources) > 1:
        result["sources"] = sources
    if fitted:
        result |= {"class": f"{kind.__module__}.{kind.__qualname__}", "state": _state(value)}
    return result


def _state(estimator: Any) -> str:
    """Return a digest of what an estimator has been given and has learnt."""
    import joblib

    return str(joblib.hash(_parts(estimator), hash_name="sha1"))


def _parts(value: Any) -> Any:
    """Return a value without what differs from process to process: the ids of Python's objects."""
    if isinstance(value, Mapping):
        return {key: _parts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_parts(item) for item in value]
    if hasattr(value, "get_params") and not isinstance(value, type):
        kept = {
            k: _parts(v) for k, v in vars(value).items() if not (k[0] == "_" and k[-3:] == "_id")
        }
        return [type(value).__qualname__, kept]
    return value
