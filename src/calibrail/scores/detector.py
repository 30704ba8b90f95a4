"""What do the built-in scores share: declared parameters, one value per example, their models?"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, Signature, get_annotations
from typing import Any, ClassVar, dataclass_transform

from calibrail.data.example import Example
from calibrail.scores.base import JSON, Demand, Scores, Valued, each, missing, prepare


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Detector:
    """Base of the built-in scores; one of another package needs no base, see ``Score``.

    A subclass declares its parameters as annotated fields and checks them in ``__post_init__``.
    ``params`` is read off them, those of a subclass before those of its base.
    """

    name = ""
    #: Whether every value comes with evidence.
    explains = False
    #: What ``params`` leave unsaid, where no model is asked.
    versions: ClassVar[Mapping[str, JSON]] = {}
    __signature__: ClassVar[Signature | None]
    _declared: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        is_declared = "__init__" not in vars(cls)
        dataclass(kw_only=True, eq=False, repr=False)(cls)
        above = (vars(base).get("_declared") for base in cls.__mro__[1:])
        inherited: tuple[str, ...] = next(names for names in above if names is not None)
        defaults = {item.name: item.default for item in fields(cls) if item.init}  # type: ignore[arg-type]
        here = [name for name in get_annotations(cls) if name in defaults]
        names = tuple(dict.fromkeys((*here, *inherited)))
        cls._declared = names
        cls.__signature__ = (
            Signature([_keyword(name, defaults[name]) for name in names]) if is_declared else None
        )

    @property
    def params(self) -> Mapping[str, JSON]:
        """Every parameter with its value."""
        return {name: getattr(self, name) for name in self._declared}

    @property
    def requires(self) -> tuple[str, ...]:
        """The fields of ``Example`` that it reads."""
        return ("contexts", "response")

    @property
    def tolerance(self) -> float:
        """How far two computations of one value may differ: not at all, where none is a model's."""
        return 0.0

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return what ``params`` leave unsaid."""
        return dict(self.versions)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example; undefined where a field is missing or nothing is judged."""
        return each(examples, self.requires, self.value, self.explains)

    def value(self, example: Example) -> Valued | str:
        """Return the value of one example, alone or with its evidence, or why there is none."""
        raise AssertionError(f"{type(self).__name__} defines no value")


class ModelScore(Detector):
    """Base of the scores that look things up in models, each of them once for all scores."""

    @property
    def models(self) -> tuple[Any, ...]:
        """Every model that the score calls."""
        raise AssertionError(f"{type(self).__name__} calls no model")

    @property
    def tolerance(self) -> float:
        """How far two computations of one value may differ, by the first model's precision."""
        return float(self.models[0].tolerance)

    def fingerprint(self) -> Mapping[str, JSON]:
        """Return the first model's fingerprint, and what else matters."""
        return {**self.models[0].fingerprint(), **self.versions}

    def forget(self) -> None:
        """Drop what was computed, so that the next example is computed by itself."""
        for model in self.models:
            model.forget()

    def inputs(self, example: Example) -> Iterable[Any]:
        """Return what each model is asked about one example that lacks nothing."""
        raise AssertionError(f"{type(self).__name__} asks nothing")

    def demands(self, examples: Sequence[Example]) -> tuple[Demand, ...]:
        """Return what ``score`` will look up, each input once."""
        usable = [example for example in examples if missing(example, self.requires) is None]
        inputs = tuple(dict.fromkeys(item for example in usable for item in self.inputs(example)))
        return tuple(Demand(model, (inputs,)) for model in self.models)

    def score(self, examples: Sequence[Example]) -> Scores:
        """Return one value per example, all inputs being looked up together."""
        prepare(self.demands(examples))
        return super().score(examples)


def _keyword(name: str, default: Any) -> Parameter:
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if default is MISSING else default,
    )
