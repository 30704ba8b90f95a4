from __future__ import annotations

import pytest

from calibrail.errors import InputError
from calibrail.scores import ScoreSpec, build, parse_spec
from calibrail.scores.registry import PRESETS


@pytest.mark.parametrize(
    ("score", "name"), [(score, name) for score, own in PRESETS.items() for name in own]
)
def test_every_preset_builds(score: str, name: str) -> None:
    built = build(ScoreSpec(score, {"preset": name}))
    assert "preset" not in built.params
    for key, value in PRESETS[score][name].items():
        assert built.params[key] == value


def test_revisions_are_whole_commits() -> None:
    for presets in PRESETS.values():
        for params in presets.values():
            for key, value in params.items():
                if key.endswith("revision"):
                    assert len(str(value)) == 40


def test_ones_own_parameters_go_before_the_presets() -> None:
    built = build(parse_spec("sec:preset=paper,window=128,revision=main"))
    assert built.params["model"] == "facebook/bart-large-mnli"
    assert (built.params["window"], built.params["revision"]) == (128, "main")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sec:preset=best", "the score sec has no preset 'best'; its presets: paper"),
        ("length:preset=paper", "the score length has no preset 'paper'; its presets: none"),
    ],
)
def test_an_unknown_preset_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(parse_spec(text))
