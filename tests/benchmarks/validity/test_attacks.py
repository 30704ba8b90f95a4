"""Each attack on a promise fails at reduced size."""

import pytest

from benchmarks.validity.attacks.__main__ import attacks
from benchmarks.validity.attacks.attack import Attack, holds

#: Attacks' runs here; all of them are in ``make validate``.
RUNS = 6


@pytest.mark.parametrize("attack", attacks(), ids=lambda attack: attack.name)
def test_an_attack_fails(attack: Attack) -> None:
    was, of = attack.before
    assert not holds(was, of, attack.promised, 1e-3), "it did not succeed before"
    wrong, runs = attack.counted(0, RUNS)
    assert holds(wrong, runs, attack.promised, 1e-4)
