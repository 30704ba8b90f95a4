"""Which files of source does a detector of the user's own rest on?"""

import ast
import hashlib
import importlib.util
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec
from pathlib import Path
from pkgutil import get_importer
from types import FunctionType, ModuleType
from typing import TypeAlias

from calibrail.working_folder import find_in_folder

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
