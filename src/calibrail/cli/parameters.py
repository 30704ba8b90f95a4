"""Settings objects as options (cyclopts does this natively)."""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from functools import wraps
from keyword import iskeyword
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, ClassVar, Final, Literal, get_args, get_origin, get_type_hints

import click

import calibrail.guardrail
from calibrail import options
from calibrail.cli.output import CommandHelp, Showing, file_to_write, folder_to_write, note, say
from calibrail.errors import CalibrailError, InputError
from calibrail.models.llm.transport import CallLimits
from calibrail.options import fields as option_fields
from calibrail.options.data import LABELLING
from calibrail.options.guarantee import OF_ONE_THRESHOLD, Unit
from calibrail.working_folder import settle_own_code

#: The default of a parameter that has to be given.
_NEEDED: Final = object()


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """Which fields of a settings object a command offers, and what is different there.

    Attributes
    ----------
    only, without : tuple of str
        The fields offered (all when empty), and those that are not.
    """

    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()


class Argument(click.Argument):
    """An argument that the help lists."""

    help = ""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """Return how it is called, and what it means."""
        return str(self.metavar), self.help


@dataclass(frozen=True, slots=True, eq=False)
class Word:
    """How a parameter of a command stands there; without flags it is an argument.

    Attributes
    ----------
    metavar : str
        What stands for its value ("" what its type is called).
    flags : tuple of str
    check : callable, optional
        What is done with its value before the command runs; it returns the value.
    panel : str, optional
        Below which heading the help lists it.
    """

    metavar: str
    flags: tuple[str, ...] = ()
    check: Any = None
    panel: str | None = None

    def parameter(self, name: str, hint: Any, help: str, default: Any = _NEEDED) -> Any:
        """Return the parameter of a type hint: a type, a list of it, either or None.

        ``help`` says what it means.
        """
        kind = _present(hint)
        several = get_origin(kind) is list
        kind = get_args(kind)[0] if several else kind
        made: Any
        needed = default is _NEEDED
        about: dict[str, Any] = {
            "type": click.Path(path_type=Path) if kind is Path else kind,
            "required": needed,
            "callback": self.check and (lambda _, __, value: self.check(value)),
        }
        if self.flags:
            about |= {"multiple": several, "show_default": True}
            about |= {} if needed else {"default": default}
            about |= {"is_flag": True} if kind is bool else {}
            about |= {"help": help, "metavar": self.metavar or None}
            made = click.Option([name, *self.flags], **about)
        else:
            metavar = self.metavar if needed else f"[{self.metavar}]"
            made = Argument([name], metavar=metavar, nargs=-1 if several else 1, **about)
            made.help = help
        made.panel = self.panel
        return made


Data = Annotated[list[str], Word("DATA...")]
Guardrail = Annotated[Path, Word("GUARDRAIL")]
Keys = Annotated[list[Path] | None, Word("PUB.pem", ("--key",))]


def to_file(kind: str = "") -> Word:
    """Return the option for a file of results, refused before the work where it cannot be.

    An earlier one of its ``kind`` is replaced; without a kind the command itself decides.
    """

    def checked(path: Path | None) -> Path | None:
        if path and kind in _SUFFIXES and path.suffix in {*_TABLES} - {_SUFFIXES[kind]}:
            raise InputError.on("other_format", path=path, by=_SUFFIXES[kind])
        return file_to_write(path)

    _KINDS[checked] = kind
    return Word("FILE", ("--output", "-o"), checked)


#: How files of a kind are named, and names that say a table.
_SUFFIXES: Final = {"decisions": ".jsonl", "selection": ".jsonl"} | dict.fromkeys(
    ("scores", "log_export"), ".parquet"
)
_TABLES: Final = (".csv", ".tsv", ".xlsx", ".parquet")
#: Which kind of file is written where an option checks its value so.
_KINDS: Final[dict[Callable[..., Any], str]] = {file_to_write: "figure", folder_to_write: ""}


def to_folder(metavar: str) -> Word:
    """Return the option for a folder of results, refused before the work where it cannot be."""
    return Word(metavar, ("--output", "-o"), folder_to_write)


RunFolder = Annotated[Path, to_folder("RUN")]
FORCE: Final = Word("", ("--force",), panel="Output")


@contextmanager
def serving_packages(what: str, remedy: str = "") -> Iterator[None]:
    """Name the package that serving lacks, and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("calibrail"):
            raise
        raise CalibrailError.on("serve_needs", of=what, error=error, by=remedy) from error


Promise = Annotated[options.Promise, Pick()]
#: What one threshold can promise.
ThresholdPromise = Annotated[Promise, Pick(only=OF_ONE_THRESHOLD)]
Release = Annotated[options.Release, Pick()]
Requirement = Annotated[options.Requirement, Pick()]
#: Answers with labels, answers whose labels are not read, and whose groups are not read either.
Reading = Annotated[options.ReadOptions, Pick()]
ReadingUnlabelled = Annotated[Reading, Pick(without=("group_column", "pair", *LABELLING))]
ReadingGrouped = Annotated[Reading, Pick(without=("pair", *LABELLING))]
Splitting = Annotated[options.SplitOptions, Pick()]


@dataclass(frozen=True, eq=False)
class Running(CallLimits, options.EngineOptions):
    """What scoring may ask of endpoints, and where the rest of it runs."""

    def __post_init__(self) -> None:
        CallLimits.__post_init__(self)
        options.EngineOptions.__post_init__(self)


Work = Annotated[Running, Pick()]
#: With a price where costs are reported.
Calls = Annotated[CallLimits, Pick(without=("batch",))]
FreeCalls = Annotated[CallLimits, Pick(without=("price", "batch"))]
#: What is shown with pages, beside a folder of results, and beside what has a page already.
Show = Annotated[Showing, Pick(without=("dry_run", "verbose"))]
ShowRun = Annotated[Showing, Pick(without=("page", "verbose"))]
ShowAlone = Annotated[Showing, Pick(without=("dry_run", "page", "verbose"))]


@dataclass(frozen=True, slots=True, eq=False)
class NewGuardrail:
    """How a guardrail file is written."""

    panel: ClassVar = "Output"

    sign: Path | None = option_fields.setting(default=None, metavar="KEY.pem")
    expires: str | None = option_fields.setting(default=None, metavar="DAY")
    min_version: str | None = option_fields.setting(default=None, metavar="VERSION")
    force: bool = option_fields.setting(default=False)

    def read_key(self, new: Path | None = None) -> None:
        """Refuse a key that cannot sign, and terms that are none, before the work.

        ``new`` is a key that will be made for it.
        """
        from calibrail.guardrail.signing import read_private_key

        terms = self.terms
        if self.sign is not None:
            read_private_key(self.sign)
        elif new is None and any(terms.to_dict().values()):
            raise InputError(say("refused.terms_without_key"))

    @property
    def terms(self) -> "calibrail.guardrail.SignatureTerms":
        """What the signature says beside what was signed."""
        return calibrail.guardrail.SignatureTerms(self.expires, self.min_version)


@dataclass(frozen=True, slots=True, eq=False)
class DecisionDetails:
    """What decisions tell beside the outcome."""

    probability: bool = option_fields.setting(default=False)
    base_rate: float | None = option_fields.setting(default=None)

    def by(self, guardrail: "calibrail.Guardrail") -> "calibrail.Guardrail":
        """Return a guardrail whose decisions tell it."""
        if self.probability:
            return guardrail.with_probability(self.base_rate)
        if self.base_rate is not None:
            raise InputError("--base-rate is what --probability is for; also give that")
        return guardrail


@dataclass(frozen=True, slots=True, eq=False)
class TrustArguments:
    """Whose signature a guardrail file must bear."""

    panel: ClassVar = "Signature"

    trusted: tuple[Path, ...] = option_fields.setting(default=(), metavar="PUB.pem")
    own_code: bool = option_fields.setting(default=False)
    forbid_own_code: bool = option_fields.setting(default=False)

    def __post_init__(self) -> None:
        settle_own_code(allowed=self.own_code, forbidden=self.forbid_own_code)

    @property
    def keys(self) -> tuple[Path, ...] | None:
        """The keys, or None where none is asked for."""
        return self.trusted or None

    def load(self, guardrail: Path) -> "calibrail.Guardrail":
        """Load a guardrail that is signed by one of the keys, where there are any."""
        loaded = calibrail.Guardrail.load(guardrail, trusted=self.keys)
        if loaded.signature is not None and (day := loaded.signature.ends_soon):
            note(say("command.expires", guardrail=guardrail, day=day))
        return loaded

    def read_keys(self) -> tuple[bytes, ...] | None:
        """Return what stands in the keys' files, for who loads guardrails for as long as it runs.

        Whoever may replace a guardrail's file may be able to replace a key's.
        """
        from calibrail.guardrail.signing import public_key_content

        return tuple(map(public_key_content, self.trusted)) or None

    def load_named(self, guardrail: Path | None) -> "calibrail.Guardrail | None":
        """Load the guardrail of a command that can do without one."""
        if guardrail is not None:
            return self.load(guardrail)
        if self.trusted:
            raise InputError(say("refused.trusted_without_guardrail"))
        return None


@dataclass(frozen=True, slots=True, eq=False)
class DetectorArguments(options.Detectors):
    """Which detectors a command looks at, and how they are made."""

    def scores(
        self,
        data: Any = None,
        reading: options.ReadOptions | None = None,
        *,
        several: bool = False,
        unit: Unit = "answer",
    ) -> list[Any]:
        """Return what ``calibrate`` and ``compare`` take.

        What a column's higher values mean is taken from its name where nobody says it. Where no
        detector is named, it is the data's own column of scores, or ``several``, or one default;
        without data none.
        """
        from calibrail.pipelines.fixed_threshold import with_columns, with_unnamed

        named = with_columns(self.score or None, self.score_column, self.higher)
        if named or data is None:
            return list(named or ())
        _, scores, said = with_unnamed(data, None, reading, several=several, unit=unit)
        for line in said:
            note(line.removesuffix("."))
        return list(scores)


#: Where baselines are what the command itself looks at, or nothing is compared.
DetectorsAlone = Annotated[DetectorArguments, Pick(without=("baselines",))]


#: Numbers that are no shares: of these a per cent may be a hundredth, or not.
_OWN_UNIT: Final = ("threshold", "cost_miss", "cost_alarm")


@dataclass(frozen=True, slots=True, eq=False)
class _Offered:
    """One option: the field behind it, and how the command line sees it."""

    field: Field[Any]
    hint: Any
    option: option_fields.Option
    panel: str | None

    @property
    def flag(self) -> str:
        return option_fields.flag(self.field)

    @property
    def name(self) -> str:
        word = self.flag[2:].replace("-", "_")
        return f"{word}_" if iskeyword(word) else word

    def parameter(self) -> Any:
        """Return the parameter of the command."""
        hint, metavar = self.hint, self.option.metavar or ""
        default = _NEEDED if self.field.default is MISSING else self.field.default
        match get_origin(hint):
            case None:
                if self.option.parse is not None or hint is Any:
                    hint = str
            case kind if kind is Literal:
                hint, metavar = str, metavar or "|".join(get_args(hint))
            case kind:  # a tuple of words or numbers, or KEY=VALUE pairs
                hint = list[get_args(hint)[0] if kind is tuple else str]  # type: ignore[misc]
                default = None
        # What is done unless it is refused can be refused.
        spelling = f"{self.flag}/--no-{self.flag[2:]}" if default is True else self.flag
        if self.hint is float:
            hint, metavar = self.number, metavar or "FLOAT"
        word = Word(metavar, (spelling,), panel=None if self.option.main else self.panel)
        return word.parameter(self.name, hint, self.option.help, default)

    def number(self, given: Any) -> float:
        """Return a number as people write it: 0.7, 0,7 and, of a share, 70%."""
        text = str(given).strip()
        bare = text.removesuffix("%").strip()
        # A comma before three digits may part thousands.
        if re.fullmatch(r"[-+]?(0?,\d+|\d+,(?!\d{3}$)\d+)", bare):
            bare = bare.replace(",", ".")
        number = None
        with suppress(ValueError):
            number = float(bare)
            if not text.endswith("%"):
                return number
            if self.field.name not in _OWN_UNIT and self.option.metavar in (None, "SHARE"):
                return number / 100.0
        said = {"flag": self.flag, "given": text, "number": number}
        raise click.BadParameter(say("refused.no_number", **said))

    def value(self, given: Any) -> Any:
        """Return the field's value from what stands on the command line."""
        kind = get_origin(self.hint)
        if self.field.default is None and (given is None or (kind is tuple and not given)):
            return None
        if kind is Literal:
            return option_fields.one_of(given, self.hint, self.flag)
        if kind is tuple:
            return tuple(given or ())
        if kind is not None:
            return option_fields.pairs(given, self.flag) or None
        parse = self.option.parse
        return given if parse is None or given is None else parse(given)


def command(run: Callable[..., None], **about: Any) -> CommandHelp:
    """Return the command of a function: every settings object among its parameters gives options.

    A parameter whose type is a dataclass becomes one option a field that has an ``Option``; what
    is given there makes the object that the command is called with. One that may be None is None
    where none of its options is given. What others mean stands in ``help.toml``, for this command
    or for all.
    """
    texts = option_fields.help_texts()
    said = {**texts["Word"], **texts.get(run.__name__, {})}
    hints = get_type_hints(run, include_extras=True)
    parameters: list[click.Parameter] = []
    arguments: set[str] = set()
    paths = _Paths()
    objects: dict[str, tuple[type, bool, list[_Offered]]] = {}
    for name, parameter in inspect.signature(run).parameters.items():
        hint = hints[name]
        # The outermost pick says what this command offers.
        picks = [item for item in get_args(hint)[1:] if isinstance(item, Pick)]
        kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
        optional, kind = kind != _present(kind), _present(kind)
        if not (isinstance(kind, type) and is_dataclass(kind)):
            (word,) = (item for item in get_args(hint)[1:] if isinstance(item, Word))
            if get_origin(kind) is list and not word.flags:
                arguments.add(name)
            paths.add_parameter(name, word, kind)
            default = _NEEDED if parameter.default is parameter.empty else parameter.default
            parameters.append(word.parameter(name, kind, said[name], default))
            continue
        offered = list(_offered(kind, picks[-1] if picks else Pick(), run.__name__))
        objects[name] = kind, optional, offered
        parameters += [item.parameter() for item in offered]
        paths.add_fields(offered)
    added = bool(paths.written) and not paths.decided
    parameters += [FORCE.parameter("force", bool, said["force"], False)] * added

    @wraps(run)
    def called(**given: Any) -> None:
        # click gives tuples of what may be named several times.
        given = {key: [*item] if isinstance(item, tuple) else item for key, item in given.items()}
        words = dict(given)
        if added:
            del given["force"]
        default = click.core.ParameterSource.DEFAULT
        source = click.get_current_context().get_parameter_source
        for name, (kind, optional, offered) in objects.items():
            values = {item.field.name: item.value(given.pop(item.name)) for item in offered}
            absent = optional and all(source(item.name) is default for item in offered)
            given[name] = None if absent else kind(**values)
        # One name stands for itself, several for one source.
        for name, value in given.items():
            if name in arguments and value and len(value) == 1:
                given[name] = value[0]
        reads = any(issubclass(kind, options.ReadOptions) for kind, _, _ in objects.values())
        with paths.guarded(words, quarantine=reads) if paths.written else nullcontext():
            run(**given)

    return CommandHelp(callback=called, params=parameters, help=run.__doc__, **about)


class _Paths:
    """Which options of a command name what is written, and which what is read."""

    def __init__(self) -> None:
        #: How each is spelled, what it is where it is a folder, and its kind, by parameter.
        self.written: dict[str, tuple[str, str | None, str]] = {}
        self._read: list[str] = []
        self._sources: list[str] = []
        self.decided: list[str] = []

    def add_parameter(self, name: str, word: Word, kind: Any) -> None:
        """Take a parameter of the command."""
        of_path = Path in (kind, *get_args(kind)) or word.metavar in ("FILE", "LOG")
        if word.check in _KINDS:
            flag = next((item for item in word.flags if len(item) == 2), f"--{name}")
            folder = word.metavar if word.check is folder_to_write else None
            self.written[name] = flag, folder, _KINDS[word.check]
            self.decided += [name] * (folder is None and not _KINDS[word.check])
        elif of_path or not word.flags:
            self._read.append(name)
        self._sources += [name] * (not word.flags and word.metavar.rstrip(".") in _SOURCES)

    def add_fields(self, offered: Sequence[_Offered]) -> None:
        """Take what a settings object offers."""
        for item in offered:
            if item.option.writes:
                folder = item.option.metavar == "DIR"
                self.written[item.name] = item.flag, "DIR" if folder else None, item.option.writes
                self.decided += [item.name] * (item.option.writes == "guardrail")
            elif item.option.metavar == "FILE" or Path in (item.hint, *get_args(item.hint)):
                self._read.append(item.name)

    @contextmanager
    def guarded(self, given: Mapping[str, Any], *, quarantine: bool) -> Iterator[None]:
        """Refuse to write over what is read, or what is somebody else's, before any work is done.

        In the block of the work --force holds, where it was given.

        Parameters
        ----------
        given : mapping
            What stands on the command line, by parameter.
        quarantine : bool
            Whether rows that cannot be used are listed beside the results.
        """
        from calibrail.data import outputs
        from calibrail.data.sources import named_files

        written, judged = list[outputs.Output](), list[outputs.Output]()
        for name, (option, folder, kind) in self.written.items():
            for path in _listed(given[name]):
                if str(path) != "-":
                    names = outputs.IN_FOLDER.get(folder, ())
                    written.append(outputs.Output(option, Path(path), names, kind))
                    judged += written[-1:] * (name not in self.decided)
        read = [Path(path) for name in self._read for path in _listed(given[name])]
        inputs = [str(item) for name in self._sources for item in _listed(given[name])]
        sources = [path for item in inputs for path in named_files(item)]
        # Detectors have files of their own: template=FILE.
        named = re.findall("=([^,]+)", ",".join(map(str, _listed(given.get("score")))))
        read += filter(Path.is_file, map(Path, named))
        # What was looked at stands beside a guardrail.
        read += [item.with_suffix(".looks.json") for item in read if item.name]
        # Where the rows of data that cannot be used are listed, the reader of it looks itself.
        beside = next((item.path.parent for item in written if item.option == "-o"), Path())
        aside = outputs.Output("unusable rows in", beside / "quarantine.jsonl", None, "quarantine")
        rows = [aside] if quarantine and all(item.names is None for item in written) else []
        with outputs.replacing(given.get("force", False)):
            if not given.get("dry_run"):
                outputs.refuse_within(written, sources)
                outputs.refuse_read([*written, *rows], [one for one in read if one not in sources])
                outputs.refuse_read(written, sources)
                outputs.refuse_foreign(rows)
                for path, kind in outputs.refuse_foreign(judged):
                    note(say("command.replaced", path=path, kind=kind))
            yield


#: Arguments that name data.
_SOURCES: Final = ("DATA", "TRACES", "HELDOUT", "A", "B")


def _listed(given: Any) -> list[Any]:
    """Return the values of a parameter that may have none, one or several."""
    return given if isinstance(given, list) else [] if given is None else [given]


def _present(hint: Any) -> Any:
    """Return what a value is where it is not None; of several kinds, the first one."""
    kinds = [item for item in get_args(hint) if item is not NoneType]
    return kinds[0] if NoneType in get_args(hint) else hint


def _offered(kind: type, pick: Pick, command: str) -> Iterator[_Offered]:
    hints = get_type_hints(kind)
    for item in fields(kind):
        option = item.metadata.get(option_fields.OPTION)
        if option is None or item.name in pick.without or item.name not in (pick.only or hints):
            continue
        said = option.help or option_fields.help_of(kind, item.name, command)
        panel = option_fields.panel_of(kind, item.name)
        yield _Offered(item, _present(hints[item.name]), replace(option, help=said), panel)
