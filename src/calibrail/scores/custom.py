"""Functions and estimators of the user, and the source files that they rest on."""

import ast
import hashlib
import importlib
import math
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.machinery import SOURCE_SUFFIXES, ModuleSpec
from importlib.util import find_spec, resolve_name
from operator import attrgetter
from pathlib import Path
from pkgutil import get_importer
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrail.data.columns import ALL_COLUMNS
from calibrail.data.example import TEXT_FIELDS, Example
from calibrail.data.labels import parse_label
from calibrail.errors import CalibrailError, InputError, error_text, errors_as, extra
from calibrail.models.batching import report_progress
from calibrail.options.fields import doubles, number, one_of, small_float
from calibrail.scores.base import JSON, Score, Scores, missing
from calibrail.scores.registry import Higher
from calibrail.working_folder import admit, find_in_folder, refuse_own_code

#: How an estimator is asked, the first that it has.
METHODS: Final = ("predict_proba", "decision_function")


class ProbabilityEstimator(Protocol):
    """What tells the probability of each class."""

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return one row an answer, one column a class."""


class DecisionEstimator(Protocol):
    """What tells how far an answer lies on one side."""

    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Return one number an answer, or one a class."""


class Estimator:
    """A fitted estimator, asked about examples.

    Parameters
    ----------
    estimator : object
        With ``predict_proba`` or ``decision_function``.
    name : str
        How errors call it.
    features : tuple of str
        The fields and columns that it gets; empty for those that it was fitted on.
    positive
        Which of its ``classes_`` means hallucinated; None guesses.

    Attributes
    ----------
    method : callable
        From what ``matrix`` returns to its numbers.
    fields, columns : tuple of str
        The text fields and the further columns that it reads.

    Raises
    ------
    InputError
        If it is not fitted, or it is unclear what it gets or which class is meant.
    """

    def __init__(
        self, estimator: Any, name: str, features: tuple[str, ...] = (), positive: Any = None
    ) -> None:
        with extra("learning", "an estimator as a score"):
            from sklearn.exceptions import NotFittedError
            from sklearn.utils.validation import check_is_fitted

        self._object, self._name = estimator, name
        unfitted = errors_as(InputError, NotFittedError, "estimator_not_fitted", name=name)
        # What is no estimator of scikit-learn alone knows whether it is ready.
        with unfitted, suppress(TypeError):
            check_is_fitted(estimator)
        inputs = features or tuple(map(str, getattr(estimator, "feature_names_in_", ())))
        if not inputs and (n := getattr(estimator, "n_features_in_", None)) is not None:
            raise InputError.on("estimator_without_names", name=name, n=n)
        self._inputs = inputs or ("response",)
        self._place = self._class_place(positive)
        self.method: Callable[[Any], Any] = next(
            getattr(estimator, item) for item in METHODS if hasattr(estimator, item)
        )
        self.fields = tuple(item for item in self._inputs if item in TEXT_FIELDS)
        self.columns = tuple(item for item in self._inputs if item not in TEXT_FIELDS)

    @property
    def takes_nan(self) -> bool:
        """Whether it has a value for an answer that lacks some of its columns."""
        from sklearn.utils import get_tags

        # Of what is not scikit-learn's kind nothing says that it does.
        with suppress(AttributeError, TypeError):
            return bool(get_tags(self._object).input_tags.allow_nan)
        return False

    def matrix(self, examples: Sequence[Example]) -> Any:
        """Return what the estimator gets: texts, a frame or a matrix of numbers."""
        cells = {name: [_cell(example, name) for example in examples] for name in self._inputs}
        if getattr(self._object, "feature_names_in_", None) is not None:
            import pandas as pd

            return pd.DataFrame(cells)
        if len(cells) == 1 and self._inputs[0] in TEXT_FIELDS:
            return next(iter(cells.values()))
        with errors_as(InputError, ValueError, "features_no_numbers", names=", ".join(cells)):
            return np.array(list(cells.values()), dtype=np.float64).T

    def _class_place(self, positive: Any) -> int | None:
        """Return which of the estimator's classes means hallucinated; None where it has none."""
        classes = getattr(self._object, "classes_", None)
        if classes is None:
            if positive is not None:
                raise InputError.on("estimator_without_classes", positive=positive, name=self._name)
            return None
        listed = np.asarray(classes).tolist()
        means = [parse_label(one) == 1 if positive is None else one == positive for one in listed]
        if sum(means) != 1:
            raise InputError.on("class_not_named", name=self._name, listed=listed, value=listed[-1])
        return means.index(True)

    def of_class(self, raw: NDArray[Any]) -> NDArray[Any]:
        """Return the column of the class that means hallucinated.

        Without ``classes_`` that is the second of two.

        Raises
        ------
        InputError
            If there is another number of columns, and so none that means hallucinated.
        """
        if raw.ndim < 2:
            return -raw if self._place == 0 else raw
        n, listed = raw.shape[1], getattr(self._object, "classes_", None)
        if n != (2 if listed is None else len(listed)):
            known = (
                "no classes_ say" if listed is None else f"its {len(listed)} classes_ do not say"
            )
            columns = f"{n} column{'s' * (n != 1)}"
            raise InputError.on("which_column", score=self, columns=columns, known=known)
        return raw[:, 1 if self._place is None else self._place]


def kind_of(value: Any) -> str:
    """Return what was given, for an error."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__} itself; make one: {value.__name__}(...)"
    shape = getattr(value, "shape", None)
    size = f" of shape {tuple(shape)}" if shape is not None else ""
    shown = f" {value!r:.60}" if isinstance(value, str | int | float) else ""
    return f"{type(value).__name__}{shown}{size}"


def _cell(example: Example, name: str) -> Any:
    if name not in TEXT_FIELDS:
        cell = example.columns.get(name)
        return np.nan if cell is None else cell
    value = getattr(example, name)
    return value if isinstance(value, str) else "\n".join(value)


#: What stands for a detector: a name, a `Score`, a function of an example, a fitted estimator.
ScoreLike: TypeAlias = (
    str | Score | Callable[[Example], Any] | ProbabilityEstimator | DecisionEstimator
)


#: How an object gets a name that imports it.
_NAMED: Final = "put it into a module, and pass it, or 'module:attribute', from there"

#: How far an estimator's value for one answer may differ from that in a batch.
_ROUNDING: Final = 1e-9


class CustomScore:
    """A function or a fitted estimator as a detector.

    A function gets one `Example`, without its label, and returns its score: a number, or None where
    it has none. With ``batch`` it gets a list of them and returns one number each. All columns of
    the data but the label stand in ``Example.columns``.

    An object with ``predict_proba`` or ``decision_function`` gets the answers' texts, as a list;
    with ``features`` one of them the values of that field or column, as a list, and several a
    matrix of numbers, in their order. One that was fitted on a DataFrame gets a DataFrame of the
    columns that it was fitted on.

    Parameters
    ----------
    detector : callable, estimator or str
        The object, or the name that imports it, ``"module:attribute"``. What has such a name can
        be frozen in a guardrail, and is refused there once its source or its fitted parameters
        have changed.
    batch : bool
        Whether the function gets a list of examples.
    features : str or sequence of str, optional
        What an estimator gets. One text with commas between the names does, too.
    higher : {"hallucinated", "faithful"}
        What a higher value means; ``faithful`` negates it.
    positive : optional
        Which of the estimator's ``classes_`` means hallucinated, where that is not plain.
    tolerance : float, optional
        How far two computations of one value may differ: 0 for a function, 1e-9 for estimators
        and batches, unless given.

    Attributes
    ----------
    key : str
        A short name that tells scores of one run apart.
    stays_here : str or None
        Why no other process can compute it; None where a name imports it.
    requires, columns : tuple of str
        The fields and columns that an estimator reads; a function takes what is there.

    Examples
    --------
    >>> score = CustomScore("calibrail.scores.custom:n_characters")
    >>> score.score([Example(response="four")]).values
    array([4.])
    """

    name = "custom"

    def __init__(
        self,
        detector: Any,
        *,
        batch: bool = False,
        features: str | Sequence[str] | None = None,
        higher: Higher = "hallucinated",
        positive: Any = None,
        tolerance: float | None = None,
    ) -> None:
        given = detector
        detector = import_named(given) if isinstance(given, str) else given
        self.detector = given if isinstance(given, str) else name_of(detector)
        estimates = any(hasattr(detector, method) for method in METHODS)
        if isinstance(detector, type) or not (callable(detector) or estimates):
            methods, kind = " or ".join(METHODS), kind_of(detector)
            raise InputError.on("no_score", methods=methods, kind=kind)
        one_of(higher, Higher, "higher")
        self._object, self._batch, self._higher = detector, bool(batch), higher
        self._features, self._positive = _names(features), positive
        self._estimator: Estimator | None = None
        self.importable = isinstance(given, str) or leads_back(self.detector, detector)
        self.key = self.detector if self.importable else self.detector.rpartition(":")[2]
        self.stays_here = None if self.importable else f"no name imports it: {_NAMED}"
        self.requires: tuple[str, ...] = ()
        self.columns: tuple[str, ...] = (ALL_COLUMNS,)
        if estimates:
            if batch:
                raise InputError("batch is for functions; an estimator always gets all at once")
            self._estimator = Estimator(detector, self.detector, self._features, positive)
            self.requires, self.columns = self._estimator.fields, self._estimator.columns
        elif features is not None or positive is not None:
            raise InputError("features and positive are for estimators; a function gets all")
        exact = 0.0 if not estimates and not batch else _ROUNDING
        self.tolerance = exact if tolerance is None else number(tolerance, "tolerance")
        if not 0.0 <= self.tolerance < math.inf:
            raise InputError.on("tolerance_not_finite", tolerance=tolerance)
        if not self.importable:
            warnings.warn(self.lessons[0], UserWarning, stacklevel=3)

    @property
    def lessons(self) -> list[str]:
        """What a reader should know: whether this can be frozen."""
        if self.importable:
            return []
        return [error_text("detector_without_name", of=self, remedy=_NAMED)]

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""
        return {
            "detector": self.detector,
            "batch": self._batch,
            "features": list(self._features) if self._features else None,
            "higher": self._higher,
            "positive": self._positive,
            "tolerance": self.tolerance,
        }

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the digest of the source, and of what an estimator has learnt."""
        return origin(self.detector, self._object) if self.importable else {}

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example; undefined where there is none, or no finite one."""
        whys = list(map(self._lacking, examples))
        usable = [item for item, why in zip(examples, whys, strict=True) if why is None]
        values = iter(self._values(usable))
        return Scores.of((why or self._finite(next(values)) for why in whys), explains=False)

    def _finite(self, value: float) -> float | str:
        if math.isnan(value):
            return f"{self.key} gave no value"
        if math.isinf(value):
            return f"{self.key} gave {value}, which is not finite"
        return value if self._higher == "hallucinated" else -value

    def _lacking(self, example: Example) -> str | None:
        """Return why an estimator has no value for an example, None where nothing is missing."""
        why = missing(example, self.requires)
        if why is not None or self._estimator is None or self._estimator.takes_nan:
            return why
        empty = (name for name in self.columns if example.columns.get(name) is None)
        return next((f"column {name} is empty" for name in empty), None)

    def _values(self, examples: Sequence[Example]) -> Sequence[float]:
        if not examples:
            return []
        if self._estimator is not None:
            raw = self._called(self._estimator.method, self._estimator.matrix(examples), examples)
            return self._numbers(self._estimator.of_class(np.asarray(raw)), len(examples))
        # Where answers are decided about there is no label, and an engine may leave it behind.
        examples = [item if item.label is None else replace(item, label=None) for item in examples]
        if self._batch:
            return self._numbers(self._called(self._object, examples, examples), len(examples))
        values: list[float] = []
        for example in examples:
            values += self._numbers([self._called(self._object, example, [example])], 1)
            report_progress(len(values) / len(examples))
        return values

    def _called(
        self, function: Callable[[Any], Any], given: Any, examples: Sequence[Example]
    ) -> Any:
        try:
            return function(given)
        except CalibrailError:
            raise
        except Exception as error:
            n = len(examples)
            where = f"answer {examples[0].id!r}" if n == 1 else f"{n} answers"
            # What takes a list fails on its first answer with a type error.
            hint = self._hint if isinstance(error, TypeError) else ""
            raise InputError.on("call_failed", of=self, at=where, error=error, hint=hint) from error

    @property
    def _hint(self) -> str:
        takes_one = self._estimator is None and not self._batch
        return error_text("function_of_lists") if takes_one else ""

    def _numbers(self, raw: Any, n: int) -> list[float]:
        values = np.zeros(0)
        with suppress(TypeError, ValueError):
            items = [
                np.nan if item is None else doubles(item) if small_float(item) else item
                for item in (doubles(raw) if small_float(raw) else raw)
            ]
            if not any(isinstance(item, str | bytes) for item in items):
                values = np.asarray(items, np.float64)
        if values.size != n or values.shape[:1] != (n,):
            returned = kind_of(raw[0] if self._hint else raw)
            raise InputError.on("detector_returned", score=self, n=n, returned=returned)
        return values.reshape(n).tolist()


def as_score(value: object) -> Score:
    """Return a score as it is, and a function or an estimator as one.

    Raises
    ------
    InputError
        If it is neither.
    """
    if isinstance(value, Score) and not isinstance(value, type):
        return value
    return CustomScore(value)


def n_characters(example: Example) -> float:
    """Return the length of an answer: the least that a detector can be."""
    return float(len(example.response))


def _names(features: str | Sequence[str] | None) -> tuple[str, ...]:
    if features is None:
        return ()
    names = features.split(",") if isinstance(features, str) else features
    if not isinstance(names, Sequence) or not all(isinstance(n, str) and n.strip() for n in names):
        raise InputError(f"features must name fields or columns; got {features!r}")
    return tuple(name.strip() for name in names)


def sources(modules: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of the files of modules, and of those of the user's own that they use.

    These are the modules that a source imports, also within functions, together with the packages
    around them, as far as they belong to no installed package but its own. Nothing is imported for
    that. What is imported by a name that is computed is not among them, and neither is a file of
    data.

    Returns
    -------
    dict
        By the name of the module.
    """
    modules = list(modules)
    roots = set(map(_root, modules))
    used = _used(modules, lambda name: _root(name) in roots or _is_own(name))
    digests = {name: file and hashlib.sha256(file.read_bytes()).hexdigest() for name, file in used}
    return {name: digest for name, digest in digests.items() if digest}


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
    return {_root(name) for name, _ in _used([module], lambda name: _in_folder(_root(name)))}


def _used(
    modules: Iterable[str], is_wanted: Callable[[str], bool]
) -> Iterator[tuple[str, Path | None]]:
    """Yield the wanted modules with their files: those given, and what their sources import.

    The packages around a module are imported before it, and come first.
    """
    queue, seen = deque(modules), set[str]()
    while queue:
        parts = queue.popleft().split(".")
        for name in (".".join(parts[:n]) for n in range(1, len(parts) + 1)):
            if name in seen:
                continue
            seen.add(name)
            if is_wanted(name):
                file, folders = _located(name)
                yield name, file
                if file is not None and file.suffix in SOURCE_SUFFIXES:
                    queue += _imported(file, name if folders else name.rpartition(".")[0])


def _imported(file: Path, package: str) -> list[str]:
    """Return the modules that a source file may import: what it takes from one may be another."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError, RecursionError):
        # It cannot be imported either, in this version of Python.
        return []
    names: list[str] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            with suppress(ImportError):
                module = resolve_name("." * node.level + (node.module or ""), package)
                names += (module, *(f"{module}.{alias.name}" for alias in node.names))
    return names


def _in_folder(root: str) -> bool:
    """Return whether a module that is in no package is in the working folder and nowhere else."""
    if (spec := find_in_folder(root)) is None:
        return False
    with suppress(ImportError, ValueError):
        found = find_spec(root)
        return found is None or _place(found) == _place(spec)
    return False


def _place(spec: ModuleSpec) -> tuple[str | None, list[str]]:
    return spec.origin, list(spec.submodule_search_locations or ())


def _root(module: str) -> str:
    return module.partition(".")[0]


def _is_own(module: str) -> bool:
    """Return whether a module stands in a file of the user's own, in no installed package."""
    if _root(module) in (*sys.stdlib_module_names, "calibrail"):
        return False
    file, folders = _located(_root(module))
    installed = {"site-packages", "dist-packages"}
    places = [file] if file is not None else list(map(Path, folders or ()))
    return bool(places) and not any(installed & set(place.parts) for place in places)


def _located(module: str) -> tuple[Path | None, list[str] | None]:
    """Return the file of a module, and the folders of its modules where it is a package.

    No file where none is found, and of a package that is nothing but folders; of a module in an
    archive it is the archive.
    """
    if (loaded := sys.modules.get(module)) is not None:
        file, folders = (getattr(loaded, name, None) for name in ("__file__", "__path__"))
    else:
        package, specs = module.rpartition(".")[0], list[ModuleSpec | None]()
        with suppress(ImportError, ValueError):
            if not package:
                specs = [find_spec(module) or find_in_folder(module)]
            else:
                # Not by the package's name, which would import it.
                finders = filter(None, map(get_importer, _located(package)[1] or ()))
                specs = [finder.find_spec(module) for finder in finders]
        known = [spec for spec in specs if spec is not None]
        if here := [spec for spec in known if spec.has_location]:
            file, folders = here[0].origin, here[0].submodule_search_locations
        else:
            parts = [part for spec in known for part in spec.submodule_search_locations or ()]
            file, folders = None, parts or None
    paths = [] if file is None else [Path(file), *Path(file).parents]
    standing = next((path for path in paths if path.is_file()), None)
    return standing, None if folders is None else list(folders)


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
        raise InputError.on("detector_made_in_script", name=name)
    if not colon or not all(map(str.isidentifier, (*module.split("."), *attribute.split(".")))):
        raise InputError.on("detector_name", name=name)
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise InputError(f"{name} is a part of Python, which holds no detector")
    refuse_own_code(f"the detector {name}")
    admit(modules_in_folder(module))
    try:
        return attrgetter(attribute)(importlib.import_module(module))
    except Exception as error:
        remedy = "its module must be installed, or stand on PYTHONPATH or in the working folder"
        raise InputError.on("not_imported", of=name, error=error, by=remedy) from error


def name_of(value: Any) -> str:
    """Return the name under which an object was defined, whether or not it leads back to it.

    >>> name_of(lambda example: 0.0)
    'calibrail.scores.custom:<lambda>'
    """
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


def leads_back(name: str, value: Any) -> bool:
    """Return whether a name can be imported, and is that of this very object."""
    with suppress(InputError):
        return import_named(name) is value
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
    kind, fitted = type(value), hasattr(value, "get_params")
    # A function may be defined elsewhere than where its name leads.
    modules = {name.partition(":")[0], kind.__module__ if fitted else value.__module__}
    # Of a fitted object's class the package's version tells, unless it stands in the same file.
    read = sorted({name.partition(":")[0]} if fitted else modules)
    hasher, sources = hashlib.sha256(), dict[str, str]()
    for module in read:
        file = _located(module)[0] if module in sys.modules else None
        if file is not None:
            hasher.update(raw := file.read_bytes())
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
        import joblib

        # A digest of what the estimator has been given and has learnt.
        state = str(joblib.hash(_parts(value), hash_name="sha1"))
        result |= {"class": f"{kind.__module__}.{kind.__qualname__}", "state": state}
    return result


def _parts(value: Any) -> Any:
    """Return a value without what differs from process to process: the ids of Python's objects."""
    if isinstance(value, Mapping):
        return {key: _parts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_parts(item) for item in value]
    if hasattr(value, "get_params") and not isinstance(value, type):
        held = vars(value).items()
        kept = {k: _parts(v) for k, v in held if (k[:1], k[-3:]) != ("_", "_id")}
        return [type(value).__qualname__, kept]
    return value
