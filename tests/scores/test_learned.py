from __future__ import annotations

import pytest

from calibrail.errors import InputError
from calibrail.scores import build, parse_spec
from calibrail.scores.base import learns, state_bytes, with_state


def test_a_score_that_does_not_learn_has_no_state() -> None:
    length = build(parse_spec("length"))
    assert not learns(length)
    assert state_bytes(length) is None
    assert with_state(length, None) is length
    with pytest.raises(InputError, match="length learns nothing"):
        with_state(length, b"x")


def test_a_missing_or_damaged_state_is_named() -> None:
    crg = build(parse_spec("crg:weights=learned"))
    assert learns(crg)
    with pytest.raises(InputError, match="crg learns, and what it has learnt is missing"):
        with_state(crg, None)
    with pytest.raises(InputError, match="what the score crg has learnt is damaged"):
        with_state(crg, b"not safetensors")
    other = state_bytes(build(parse_spec("crg")))
    assert other is not None
    assert not learns(with_state(crg, other))
