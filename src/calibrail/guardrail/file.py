"""The guardrail file: its schema, its digest and migrations of older ones.

The schema's number rises when a file holds something new. A migration takes the content of one
number to the next; it decides nothing anew, and what it cannot know it leaves open.
"""

import base64
import hashlib
import json
import math
import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import pydantic

from calibrail.atomic_files import read_regular, whole_file, write_atomically
from calibrail.data.outputs import Output, refuse_foreign, refuse_other
from calibrail.errors import GuardrailError, error_text, errors_as, file_errors
from calibrail.guardrail import signing
from calibrail.guardrail.decision import raised_in_old_probes
from calibrail.options import Promise, Requirement, fields
from calibrail.scores.registry import ScoreSpec, runs_code
from calibrail.serialization import Record, canonical
from calibrail.working_folder import is_own_code, is_own_file, note_own_file

_PREFIX: Final = "calibrail.guardrail/"
NEWEST: Final = 2
SCHEMA: Final = "calibrail.guardrail/2"
#: No larger file is read: of hallucinated calibration answers that is about three million with
#: texts, whose sketches take 320 characters each, and 28 million of a column of scores.
MOST_BYTES: Final = 1 << 30


#: By the number that a migration begins with: what is known of a field that came later.
MIGRATIONS: Final[Mapping[int, Mapping[str, Any]]] = {1: {"probes": None}}


def migrate(content: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return the content of a guardrail file in the newest schema.

    Parameters
    ----------
    content : mapping
        What the file holds; its digest was verified.
    source : str
        What messages call it.

    Raises
    ------
    GuardrailError
        If this version reads no such schema.
    """
    given, again = content.get("schema"), "export it again: calibrail export RUN -o guardrail.json"
    match = re.fullmatch(rf"{re.escape(_PREFIX)}([1-9]\d{{,8}})", str(given), re.ASCII)
    if match is None:
        raise GuardrailError.on("schema", of=source, given=given, own=SCHEMA, by=again)
    if (number := int(match[1])) > NEWEST:
        raise GuardrailError.on(
            "schema_of_later", source=source, given=given, schema=SCHEMA, again=again
        )
    result = dict(content)
    for step in range(number, NEWEST):
        result = {**result, **MIGRATIONS[step], "schema": f"{_PREFIX}{step + 1}"}
    return result


class _Frozen(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        ser_json_inf_nan="constants",
        # Most commands freeze and read no guardrail.
        defer_build=True,
    )
    #: Fields that are not written where they are None: files were frozen before there were any.
    _later: ClassVar[tuple[str, ...]] = ()

    @pydantic.model_serializer(mode="wrap")
    def _without_later(self, serialise: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        content: dict[str, Any] = serialise(self)
        return {k: v for k, v in content.items() if v is not None or k not in self._later}


def _as_record(kind: type[Record], value: Any) -> Record:
    return value if isinstance(value, kind) else kind.from_dict(value)


#: A record is read and written by its own checks, not by pydantic's.
_WRITE: Final = pydantic.PlainSerializer(lambda value: value.to_dict())
_Promise = Annotated[Promise, pydantic.BeforeValidator(partial(_as_record, Promise)), _WRITE]
_Requirement = Annotated[
    Requirement, pydantic.BeforeValidator(partial(_as_record, Requirement)), _WRITE
]


class ScoreSpecConfig(_Frozen):
    """The detector: what to build, and what it must turn out to be.

    Attributes
    ----------
    name, params
        What the registry builds the score from.
    fingerprint : dict
        Everything the parameters leave unsaid (weights' SHA-256, revision, dtype, maximum length,
        word splitter and its version). A score that is built with another fingerprint is refused.
    tolerance : float
        Near-ties within this distance below the threshold are flagged.
    state : str or None
        What a score that learns has learnt: safetensors in base64.
    """

    name: str
    params: dict[str, Any]
    fingerprint: dict[str, Any]
    tolerance: float = pydantic.Field(ge=0.0)
    state: str | None = None

    def state_bytes(self) -> bytes | None:
        """Return what the score has learnt, None if it does not learn."""
        if self.state is None:
            return None
        with errors_as(GuardrailError, ValueError, "state_no_base64"):
            return base64.b64decode(self.state, validate=True)


class Policy(_Frozen):
    """What happens where there is no score.

    Attributes
    ----------
    undefined : {"flag", "review", "pass"}
        For an answer whose score is undefined. The calibration counted such answers in the same
        way, so changing it would void the guarantee.
    failure : {"error", "flag", "review"}
        For an answer on which the detector raised. Never ``"pass"``.
    """

    undefined: Literal["flag", "review", "pass"] = "flag"
    failure: Literal["error", "flag", "review"] = "error"


class DataRecord(_Frozen):
    """Which data the guardrail was calibrated on: names, counts and digests, no text of it.

    ``n_hallucinated`` of the ``n_examples`` labelled answers are hallucinated; None in a guardrail
    that was frozen before this was kept. ``reading`` holds the options with which the data was read
    and the columns that they gave, where any were needed: fresh data of that layout is read alike;
    its ``decimals`` what parted decimals in columns of texts, where that was a comma.
    ``known_by`` counts the answers by what tells them from others
    (see ``calibrail.data.example.KnownBy``), and under ``alike`` those that their content does not
    tell apart; None in a guardrail that was frozen before this was kept. ``looked_at`` is the look
    of its report at the answers that tested it (``calibrail.pipelines.look_overlap.DataUse``),
    likewise. ``choice`` says among how many detectors the data chose this one, and on how many
    answers of the half that did not choose its certificate rests; None where it was named
    beforehand. ``sketches`` are those of ``calibration_examples``
    (``calibrail.data.duplicates.Sketches``); None without texts, and likewise.
    """

    source: str
    format: str
    sha256: str | None
    n_examples: int
    n_hallucinated: int | None = None
    n_quarantined: int
    seed: int | None
    calibration_examples: list[str]
    reading: dict[str, Any] | None = None
    known_by: dict[str, int] | None = None
    looked_at: dict[str, Any] | None = None
    sketches: str | None = None
    choice: dict[str, Any] | None = None

    _later = ("sketches", "choice")


class Headline(_Frozen):
    """The report's summary when the guardrail was frozen.

    ``cost`` is what its errors were to cost (``calibrail.evaluation.sections.expected_cost``), and
    ``certificate`` the bounds that the verdict rests on, as ``certificate_bounds`` takes them.
    ``three_way`` says how many were flagged, and how many sent to review, where that is not the
    same; ``by_group`` whether each group has a threshold of its ``own``, and its verdict.
    Of a guardrail of sentences ``coverage`` is the share of hallucinated answers freed of all
    unsupported sentences, and ``fpr`` that of faithful answers that lost one; ``kept_supported``
    and ``emptied`` stand in no other.
    """

    verdict: Literal["certified", "rejected", "inconclusive"]
    reason: str
    max_fpr: float | None
    min_coverage: float
    confidence: float
    coverage: dict[str, Any]
    fpr: dict[str, Any]
    auroc: float | None
    warnings: list[str]
    kept_supported: dict[str, Any] | None = None
    emptied: dict[str, Any] | None = None
    cost: dict[str, Any] | None = None
    certificate: dict[str, Any] | None = None
    three_way: dict[str, Any] | None = None
    by_group: dict[str, Any] | None = None

    _later = ("kept_supported", "emptied", "cost", "certificate", "three_way", "by_group")


def certificate_bounds(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the bounds of both rates: intervals, the ends that decide, and what holds together."""
    kept = ("coverage", "fpr", "coverage_at_least", "fpr_at_most", "region")
    return {name: certificate[name] for name in kept}


#: Of the sixteen probe answers, or of all their sentences.
_Probed = Annotated[list[float | None], pydantic.Field(min_length=16)]


class _ProbeResults(_Frozen):
    """What the probes gave apart from their scores."""

    reasons: dict[str, str]
    raised: dict[str, str] | None = None

    _later = ("raised",)

    @property
    def errors(self) -> Mapping[str, str]:
        """On which probes the detector raised, by their numbers, and what."""
        return raised_in_old_probes(self.reasons) if self.raised is None else self.raised


class ProbedMember(_ProbeResults):
    """The results of one member of a detector on the probe answers.

    Attributes
    ----------
    scores, reasons, raised
        As those of ``Probes``.
    """

    scores: _Probed


class Probes(_ProbeResults):
    """The results of the detector on the probe answers when it was frozen.

    Attributes
    ----------
    set : str
        Which answers (``calibrail.guardrail.probes``).
    scores : list of float or None, or None
        Their scores in order; None where the score is undefined. None for all of it where the
        detector asks an endpoint that was not to be asked.
    reasons : dict of str to str
        Why, by the number of the probe, counted from 1; of sentences, by theirs.
    raised : dict of str to str, or None
        The class of what the detector raised, by the number of the probe. None where it raised
        nothing, and in what an older version froze.
    versions : dict of str to str
        What computed them: libraries, linear algebra, processor, device, precision.
    members : dict of str to ProbedMember, or None
        Of a detector that asks an endpoint, its members that do not.
    """

    set: Literal["calibrail-probes/1", "calibrail-probes/1 by sentence"]
    scores: _Probed | None
    versions: dict[str, str]
    members: dict[str, ProbedMember] | None = None

    def known(self) -> list[float | None]:
        """Return the scores of the whole, or of the members where the whole was not asked."""
        if self.scores is not None:
            return self.scores
        return [value for member in (self.members or {}).values() for value in member.scores]


#: Scores of one class of answers, ascending.
_Defined = Annotated[list[float], pydantic.Field(min_length=1)]


class ClassScores(_Frozen):
    """Calibration scores by which a decision tells P(hallucinated).

    Attributes
    ----------
    hallucinated, faithful : list of float
        Defined ones of the calibration part, one answer of each group; higher = more likely
        hallucinated.
    base_rate : float or None
        Share of hallucinated answers that decisions tell it for; None where it is not asked for.
    """

    hallucinated: _Defined
    faithful: _Defined
    base_rate: float | None = pydantic.Field(default=None, gt=0.0, lt=1.0)

    _later = ("base_rate",)

    @property
    def own_rate(self) -> float:
        """The share of hallucinated answers among these."""
        n = len(self.hallucinated)
        return n / (n + len(self.faithful))


#: Answers of which a sketch of traffic holds what is not their text.
MOST_SKETCHED: Final = 1_000

#: A column of it; None where an answer has no such value.
_Lengths = list[Annotated[int, pydantic.Field(ge=0)] | None]


class TrafficSketch(_Frozen):
    """A random sample of the labelled answers, without their texts: what traffic is to look like.

    One answer of each group, in random order; none of those that the detector has learnt from. At
    most `MOST_SKETCHED`, so that it takes less than 64 kB of the file.

    Attributes
    ----------
    hallucinated : list of int
        1 or 0: the label of each.
    score : list of float or None
        None where it is undefined.
    question, response, chunks : list of int or None
        Characters, and retrieved chunks; None where no texts came with the score.
    language : list of str or None
        As ``calibrail.text.words.language_of`` tells it.
    base_rate : float or None
        Share of hallucinated answers in traffic, where costs were given for one; None where that
        of the labelled answers is taken for it.
    """

    #: Columns that are taken from texts.
    MEASURED: ClassVar = ("question", "response", "chunks", "language")

    hallucinated: Annotated[list[Literal[0, 1]], pydantic.Field(max_length=MOST_SKETCHED)]
    score: list[float | None]
    question: _Lengths
    response: _Lengths
    chunks: _Lengths
    language: list[Annotated[str, pydantic.Field(max_length=35)] | None]
    base_rate: float | None = pydantic.Field(default=None, gt=0.0, lt=1.0)

    @pydantic.model_validator(mode="after")
    def _of_one_length(self) -> Self:
        lengths = {len(getattr(self, name)) for name in ("score", *self.MEASURED)}
        if lengths != {len(self.hallucinated)}:
            raise ValueError("its columns differ in length")
        return self


class FrozenConfig(_Frozen):
    """The whole content of ``guardrail.json``.

    The file is the canonical rendering of this content (sorted keys, one top-level key a line), so
    that equal content means equal bytes; ``digest`` is the SHA-256 of everything else.

    Attributes
    ----------
    calibration, groups, upper, chosen
        The thresholds, as ``calibrail.conformal.threshold_rule.Rule`` holds them.
    promise : Promise
        What the thresholds keep; its ``by`` names the column that holds each answer's group, where
        ``groups`` have their own.
    requirement : Requirement
        What was asked of the data; ``chosen`` was chosen to keep its ``risks``.
    probes : Probes or None
        None for a column of the data, for a detector that only asks an endpoint which was not to be
        asked, and in what an older version froze.
    probability : ClassScores or None
        None where no decision can tell P(hallucinated).
    traffic : TrafficSketch or None
        What a watch compares traffic with; None where sentences are removed, in what was made anew
        from a log, and in what an older version froze.
    digest : str
        That of the file; of one in an older schema, its own.
    """

    schema_: Literal["calibrail.guardrail/2"] = pydantic.Field(default=SCHEMA, alias="schema")
    score: ScoreSpecConfig
    calibration: dict[str, Any]
    promise: _Promise
    requirement: _Requirement
    groups: dict[str, Any] | None = None
    upper: dict[str, Any] | None = None
    chosen: float | None = None
    policy: Policy
    data: DataRecord
    headline: Headline
    versions: dict[str, str]
    probes: Probes | None = None
    probability: ClassScores | None = None
    traffic: TrafficSketch | None = None
    digest: str = ""
    #: The bytes it was read from, where an older version wrote them.
    _older: bytes | None = pydantic.PrivateAttr(None)
    _later = ("probability", "traffic")
    #: Of an instance, the file that it was read from, where nobody vouches for what that names. No
    #: part of the content, by which two are compared.
    unvouched: ClassVar[Path | None] = None

    @property
    def asked(self) -> bool:
        """Whether its verdict was asked for."""
        return self.requirement.asks or self.headline.verdict != "inconclusive"

    @property
    def standing(self) -> dict[str, Any]:
        """What its verdict is, whether it was asked for, and on what it hangs."""
        about = {"asked": self.asked, "choice": self.data.choice}
        named = {"verdict": self.headline.verdict, "warnings": list(self.headline.warnings)}
        return {**about, **named, "guarantee": self.promise.guarantee}

    @property
    def detector_chosen(self) -> bool:
        """Whether the answers that set the threshold chose the detector among others, too."""
        return self.data.choice is not None or "compared_before" in self.headline.warnings

    def to_bytes(self) -> bytes:
        """Return the canonical bytes of the file, digest included; of one that was read, its own.

        So a copy of a file that an older version wrote has the digest that is known of it.
        """
        if self._older is not None:
            return self._older
        content = self.model_dump(by_alias=True)
        content["digest"] = content_digest(content)
        return render(content)

    @classmethod
    def from_bytes(cls, raw: bytes, source: str = "guardrail") -> Self:
        """Read and verify the bytes of a guardrail file.

        Raises
        ------
        GuardrailError
            If it is not JSON, holds an unknown or missing field, or any byte differs from what
            was frozen.
        """
        with errors_as(GuardrailError, (ValueError, RecursionError), "no_guardrail", source=source):
            text = raw.decode("utf-8")
            numbers: Any = {"parse_float": _finite, "parse_int": _whole}
            content = json.loads(text, parse_constant=_refuse_constant, **numbers)
        if not isinstance(content, dict):
            raise GuardrailError.on("no_guardrail", source=source, error="no JSON object")
        newest = migrate(content, source)
        if content_digest(content) != content.get("digest") or render(content) != raw:
            raise GuardrailError.on("guardrail_changed", source=source)
        try:
            config = cls.model_validate(newest)
        except pydantic.ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "the file"
            raise GuardrailError.on(
                "field_misfits", source=source, place=place, says=first["msg"]
            ) from error
        if config.to_bytes() != raw:
            config._older = raw
        return config

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other content; its bytes are those of that content."""
        copied = super().model_copy(update=update, deep=deep)
        copied._older = None
        return copied


def content_digest(content: dict[str, Any]) -> str:
    """Return ``sha256:...`` of the canonical JSON of everything but the digest itself."""
    rest = {key: value for key, value in content.items() if key != "digest"}
    return "sha256:" + hashlib.sha256(canonical(rest).encode("utf-8", "surrogatepass")).hexdigest()


def render(content: dict[str, Any]) -> bytes:
    """Return the file's bytes: canonical JSON, one top-level key a line for human readers."""
    lines = [f'"{key}": {canonical(content[key])}' for key in sorted(content)]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("utf-8", "surrogatepass")


#: Python itself reads whole numbers of up to 4,300 digits, unless it is told otherwise.
_DIGITS: Final = 640


def _finite(digits: str) -> float:
    return value if math.isfinite(value := float(digits)) else _refuse_constant(digits)


def _whole(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise ValueError(f"it holds a number of {len(digits):,} digits ({digits:.20}...)")
    return int(digits)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"it holds {name:.40}, which is no finite number")


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """Which file a guardrail was read from, and who vouches for it.

    Attributes
    ----------
    path : Path
        Where it stood, from the root.
    sha256 : str
        SHA-256 of its bytes, in hex.
    signature : Signature or None
        The signature of a trusted key; None where none was asked for.
    """

    path: Path
    sha256: str
    signature: signing.Signature | None = None


def read_file(
    path: str | PathLike[str], trusted: Sequence[signing.PublicKey] | None = None
) -> tuple[FrozenConfig, FileOrigin]:
    """Read a guardrail file once, and verify every byte of it; its detector is not built.

    Parameters
    ----------
    path : path
        The file.
    trusted : sequence of path or bytes, optional
        Public keys (files, or what stands in them), one of which must have signed it. Where it is
        left out, signatures are not looked at.

    Raises
    ------
    InputError
        If ``trusted`` names no key.
    GuardrailError
        If it cannot be read, was changed, or is not signed by one of the keys.
    """
    path = fields.path(path, "path")
    keys = None if trusted is None else signing.trusted_keys(trusted)
    # What nobody vouches for is not even read.
    envelope = None if keys is None else signing.read_beside(path)
    with errors_as(GuardrailError, OSError, "guardrail_unreadable", path=path):
        if path.stat().st_size > MOST_BYTES:
            raise GuardrailError.on("guardrail_too_large", path=path, most=MOST_BYTES)
        raw = read_regular(path, MOST_BYTES)
    signature = None
    if keys is not None and envelope is not None:
        beside = str(signing.signature_path(path))
        signature = signing.verify(raw, envelope, keys, str(path), beside)
    config = FrozenConfig.from_bytes(raw, source=str(path))
    stated = {} if signature is None else signature.predicate
    wrong = [
        f"{name} {stated.get(name)!r}, and the file {value!r}"
        for name, value in _statement(raw).items()
        if stated.get(name) != value
    ]
    if signature is not None and wrong:
        raise GuardrailError.on("signed_otherwise", path=path, wrong="; ".join(wrong))
    sha256 = hashlib.sha256(raw).hexdigest()
    if not (is_own_code("yes") or signature is not None or is_own_file(sha256)):
        config.__dict__["unvouched"] = path
    return config, FileOrigin(path.absolute(), sha256, signature)


def write_file(
    config: FrozenConfig,
    path: str | PathLike[str],
    sign_with: str | PathLike[str] | None = None,
    *,
    force: bool = False,
    terms: signing.SignatureTerms | None = None,
) -> None:
    """Write a guardrail file, and its signature beside it where a private key is given.

    The same content always gives the same bytes; the signature says when it was made, besides. A
    file of another content is replaced only where ``force`` says so. Of one that names code or an
    address it is noted that this user made it, unless it is made of one that nobody vouches for.
    """
    path = fields.path(path, "path")
    key = None if sign_with is None else signing.read_private_key(sign_with)
    raw = config.to_bytes()
    refuse_other(path, raw, force=force)
    with (
        file_errors(f"cannot write {path}", "; make room, or name another place"),
        whole_file(path) as made,
    ):
        made.write_bytes(raw)
        if key is not None:
            stated = {"calibrail": version("calibrail"), "serial": int(time.time())}
            asked = (terms or signing.SignatureTerms()).to_dict()
            predicate = {**stated, **_statement(raw)}
            predicate |= {name: value for name, value in asked.items() if value is not None}
            beside = signing.signature_path(path)
            refuse_foreign([Output("", beside, kind="signature")], force=force)
            # Whoever waits for the guardrail finds its signature there; and where one of them
            # cannot be written, the old pair is still whole.
            write_atomically(beside, signing.sign(raw, path.name, predicate, key))
    named = ScoreSpec(config.score.name, config.score.params)
    if config.unvouched is None and (runs_code(named) or "://" in canonical(named.params)):
        try:
            note_own_file(hashlib.sha256(raw).hexdigest())
        except (OSError, RuntimeError) as error:
            warnings.warn(error_text("own_file_not_noted", path=path, error=error), stacklevel=3)


def _statement(raw: bytes) -> dict[str, str]:
    """Return what a signature says of a file that was verified: what its own bytes say."""
    content = json.loads(raw)
    verdict = content["headline"]["verdict"]
    return {"digest": content["digest"], "schema": content["schema"], "verdict": verdict}
