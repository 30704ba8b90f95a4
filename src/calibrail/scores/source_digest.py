"""Which source files a custom score rests on."""

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec
from operator import attrgetter
from pathlib import Path
from pkgutil import get_importer
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from calibrail.errors import InputError
from calibrail.working_folder import admit, find_in_folder

#: An import: how many dots lead it, the module, and the names that are taken from it.
_Import: TypeAlias = tuple[int, str, tuple[str, ...]]


def sources(modules: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the files of modules, and of those of the user's own that they use.

    These are the modules whose functions or classes stand in another one, and those that its source
    imports, also within functions, together with the packages around them, as far as they belong to
    no installed package but its own. Nothing is imported for that. What is imported by a name that
    is computed is not among them, and neither is a file of data.

    Returns
    -------
    dict
        By the name of the module.
    """
    queue = deque(package for name in _reached(modules) for package in _around(name))
    seen, result = set[str](), dict[str, str]()
    while queue:
        name = queue.popleft()
        if name in seen:
            continue
        seen.add(name)
        file, folders = _located(name)
        if file is None:
            continue
        result[name], imports = _read(file, _changed(file))
        package = name.rpartition(".")[0] if folders is None else name
        for used in _named(imports, package):
            if used not in seen and (_root(used) == _root(name) or _own(used)):
                queue.extend(_around(used))
    return result


def find_source(module: str) -> Path | None:
    """Return the file from which a module would be imported, and run nothing of it.

    None where it was imported already, or where no file of it is found. Packages around it are
    looked through without importing them.

    >>> find_source("no_such_module") is None
    True
    """
    return None if module in sys.modules else _located(module)[0]


def modules_in_folder(module: str) -> set[str]:
    """Return which modules and packages of the working folder a module stands in and imports.

    Those that its source imports by name are among them, also within functions, and theirs; what
    is imported by a name that is computed is not. Nothing is imported for that. None where the
    module stands elsewhere.
    """
    queue, seen, result = deque([module]), set[str](), set[str]()
    while queue:
        for name in _around(queue.popleft()):
            if name in seen:
                continue
            seen.add(name)
            if not _in_folder(_root(name)):
                continue
            result.add(_root(name))
            file, folders = _located(name)
            if file is not None:
                package = name.rpartition(".")[0] if folders is None else name
                queue.extend(_named(_read(file, _changed(file))[1], package))
    return result


def _in_folder(root: str) -> bool:
    """Return whether a module that is in no package is in the working folder and nowhere else."""
    if (spec := find_in_folder(root)) is None:
        return False
    try:
        found = importlib.util.find_spec(root)
    except (ImportError, ValueError):
        return False
    return found is None or _place(found) == _place(spec)


def _place(spec: ModuleSpec) -> tuple[str | None, list[str]]:
    return spec.origin, list(spec.submodule_search_locations or ())


def source_of(module: str) -> bytes | None:
    """Return the content of the file of a module that was imported; None where it has none."""
    file = _located(module)[0] if module in sys.modules else None
    return None if file is None else file.read_bytes()


def _reached(modules: Iterable[str]) -> set[str]:
    """Return modules that were imported, and those of the user's own that they hold parts of."""
    queue, result = deque(modules), set[str]()
    while queue:
        name = queue.popleft()
        found = sys.modules.get(name)
        if name in result or found is None:
            continue
        result.add(name)
        for value in list(vars(found).values()):
            if not isinstance(value, ModuleType | FunctionType | type):
                continue
            used = value.__name__ if isinstance(value, ModuleType) else str(value.__module__)
            # Which of its own modules a package holds depends on who has imported them.
            below = isinstance(value, ModuleType) and used.startswith(f"{name}.")
            if not below and (_root(used) == _root(name) or _own(used)):
                queue.append(used)
    return result


def _root(module: str) -> str:
    return module.partition(".")[0]


def _around(module: str) -> Iterator[str]:
    """Yield a module and the packages around it, which are imported before it."""
    while module:
        yield module
        module = module.rpartition(".")[0]


def _own(module: str) -> bool:
    """Return whether a module stands in a file of the user's own, in no installed package."""
    if _root(module) in (*sys.stdlib_module_names, "calibrail"):
        return False
    # What an installed package holds is not looked into.
    for name in dict.fromkeys((_root(module), module)):
        file, folders = _located(name)
        if file is not None and {"site-packages", "dist-packages"} & set(file.parts):
            return False
        if file is None and folders is None:
            return False
    return True


def _located(module: str) -> tuple[Path | None, list[str] | None]:
    """Return the file of a module, and the folders of its modules where it is a package.

    No file where none is found, and of a package that is nothing but folders; of a module in an
    archive it is the archive.
    """
    if (loaded := sys.modules.get(module)) is not None:
        file, folders = (getattr(loaded, name, None) for name in ("__file__", "__path__"))
        return _standing(file), None if folders is None else list(folders)
    package = module.rpartition(".")[0]
    try:
        if not package:
            specs = [importlib.util.find_spec(module) or find_in_folder(module)]
        else:
            # Not by the package's name, which would import it.
            finders = map(get_importer, _located(package)[1] or ())
            specs = [finder.find_spec(module) for finder in finders if finder is not None]
    except (ImportError, ValueError):
        return None, None
    parts: list[str] = []
    for spec in specs:
        if spec is None:
            continue
        inner = spec.submodule_search_locations
        if spec.loader is not None and spec.has_location:
            return _standing(spec.origin), None if inner is None else list(inner)
        parts += inner or ()
    return None, parts or None


def _standing(file: str | None) -> Path | None:
    """Return a file, or the archive that it is in; None where there is neither."""
    if file is None:
        return None
    path = Path(file)
    return next((part for part in (path, *path.parents) if part.is_file()), None)


def _changed(file: Path) -> tuple[int, ...]:
    """Return what differs once a file was written anew."""
    status = file.stat()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


@lru_cache(maxsize=4096)
def _read(file: Path, changed: tuple[int, ...]) -> tuple[str, tuple[_Import, ...]]:
    """Return a file's SHA-256 and its imports; ``changed`` tells it from what it was before."""
    raw = file.read_bytes()
    imports: list[_Import] = []
    if file.suffix in SOURCE_SUFFIXES:
        try:
            nodes = list(ast.walk(ast.parse(raw)))
        except (SyntaxError, ValueError, RecursionError):
            # It cannot be imported either, in this version of Python.
            nodes = []
        for node in nodes:
            if isinstance(node, ast.Import):
                imports += ((0, alias.name, ()) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                names = tuple(alias.name for alias in node.names if alias.name != "*")
                imports.append((node.level, node.module or "", names))
    return hashlib.sha256(raw).hexdigest(), tuple(imports)


def _named(imports: Iterable[_Import], package: str) -> Iterator[str]:
    """Yield the modules that imports in a package may name: what is taken may be one, or not."""
    for level, module, names in imports:
        base = package.split(".")[: 1 - level or None] if level else []
        if level and (not package or level > package.count(".") + 1):
            continue
        found = ".".join([*base, *filter(None, [module])])
        yield found
        yield from (f"{found}.{name}" for name in names)


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
    >>> import_named("calibrail.formatting:count").__name__
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
    'calibrail.scores.source_digest:<lambda>'
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
