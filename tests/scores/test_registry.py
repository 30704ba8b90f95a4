from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Sequence

import numpy as np
import pytest

from calibrail.data import Example
from calibrail.errors import InputError
from calibrail.scores import (
    BASELINES,
    Scores,
    ScoreSpec,
    available,
    build,
    build_column,
    key_of,
    parse_spec,
    parse_specs,
    registry,
)


def parsed(text: str) -> list[tuple[str, dict[str, object]]]:
    return [(spec.name, dict(spec.params)) for spec in parse_specs(text)]


class TestParsing:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("sgi", [("sgi", {})]),
            (" sgi , rad ", [("sgi", {}), ("rad", {})]),
            (
                "sgi:context=closest,model=x,rad,tfg:gamma=0.4",
                [
                    ("sgi", {"context": "closest", "model": "x"}),
                    ("rad", {}),
                    ("tfg", {"gamma": 0.4}),
                ],
            ),
            ("a:x=true,y=null,z=-3", [("a", {"x": True, "y": None, "z": -3})]),
            ('a:prompt="x, y",b', [("a", {"prompt": "x, y"}), ("b", {})]),
            ("a:model=./m:1=2,b", [("a", {"model": "./m:1=2"}), ("b", {})]),
            ('a:column="3"', [("a", {"column": "3"})]),
        ],
    )
    def test_specifications(self, text: str, expected: object) -> None:
        assert parsed(text) == expected

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "a score is named NAME"),
            (",sgi", "a score is named NAME"),
            ("sgi:", "written KEY=VALUE; got ''"),
            ("sgi:closest", "written KEY=VALUE; got 'closest'"),
            ("sgi:context=", "written KEY=VALUE"),
            ("sgi,context=closest", "parameters follow a colon"),
            ("sgi:model=a,model=b", "model is given twice"),
        ],
    )
    def test_what_cannot_be_read_is_said(self, text: str, message: str) -> None:
        with pytest.raises(InputError, match=message):
            parse_specs(text)

    def test_one_is_not_two(self) -> None:
        assert parse_spec("sgi:context=closest,model=x").name == "sgi"
        with pytest.raises(InputError, match="one score was expected; got 2 in 'sgi,rad'"):
            parse_spec("sgi,rad")


class TestBuilding:
    @pytest.mark.parametrize("name", [*BASELINES, "sgi", "rad", "tfg"])
    def test_params_rebuild_an_equal_score(self, name: str) -> None:
        score = build(ScoreSpec(name))
        params = json.loads(json.dumps(dict(score.params)))
        again = build(ScoreSpec(name, params))
        assert dict(again.params) == params
        assert again.fingerprint() == score.fingerprint()

    def test_a_near_miss_is_suggested(self) -> None:
        with pytest.raises(
            InputError, match=r"unknown score 'sgl'; did you mean 'sgi'\? known: sgi, rad"
        ):
            build(ScoreSpec("sgl"))

    def test_an_unknown_name_lists_those_known(self) -> None:
        with pytest.raises(InputError, match=r"unknown score 'zzzzzz'; known: sgi, rad, tfg"):
            build(ScoreSpec("zzzzzz"))

    def test_an_unknown_parameter_lists_those_accepted(self) -> None:
        with pytest.raises(
            InputError, match=r"no parameter 'contxt'; did you mean 'context'\? .*: context, model"
        ):
            build(ScoreSpec("sgi", {"contxt": "closest"}))
        with pytest.raises(InputError, match="length has no parameter 'a'; its parameters: none"):
            build(ScoreSpec("length", {"a": 1}))

    def test_keys_tell_scores_of_one_run_apart(self) -> None:
        keys = [
            key_of(build(spec)) for spec in parse_specs("sgi,sgi:context=closest,tfg:gamma=0.3")
        ]
        assert keys == ["sgi", "sgi:context=closest", "tfg"]
        assert key_of(build_column("dae", "faithful")) == "dae"


class Shouting:
    """A third party's score."""

    name = "shouting"
    requires = ("response",)
    tolerance = 0.0

    def __init__(self, *, weight: float = 1.0) -> None:
        self.params = {"weight": weight}

    def fingerprint(self) -> dict[str, str]:
        return {}

    def score(self, examples: Sequence[Example]) -> Scores:
        values = [self.params["weight"] * example.response.count("!") for example in examples]
        return Scores(np.array(values, dtype=np.float64))


class TestPlugIns:
    @pytest.fixture(autouse=True)
    def plug_ins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        entries = importlib.metadata.EntryPoints(
            importlib.metadata.EntryPoint(name, value, "calibrail.scores")
            for name, value in [
                ("shouting", f"{__name__}:Shouting"),
                ("broken", "no_such_package.anywhere:Score"),
            ]
        )
        monkeypatch.setattr(registry, "_plug_ins", lambda: entries)

    def test_it_is_built_with_its_parameters(self) -> None:
        score = build(parse_spec("shouting:weight=2.0"))
        assert score.score([Example(response="no!!")]).values[0] == 4.0
        assert key_of(score) == "shouting:weight=2.0"
        assert "shouting" in available()

    def test_one_that_cannot_be_loaded_is_named(self) -> None:
        with pytest.raises(InputError, match=r"broken comes from no_such_package\.anywhere"):
            build(parse_spec("broken"))
