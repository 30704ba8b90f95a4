import pytest

from calibrail.text.structure import connective, depends_on_previous, inner_however, ordinal_of


@pytest.mark.parametrize(
    ("sentence", "rest"),
    [
        ("However, it is old.", "it is old."),
        ("However it is old.", "it is old."),
        ("However hard it rains, it stands.", "However hard it rains, it stands."),
        ("In addition, the bridge is old.", "the bridge is old."),
        ("In addition to this, it is old.", "it is old."),
        ("In addition to bridges, it has towers.", "In addition to bridges, it has towers."),
        ("Therefore Paris is large.", "Paris is large."),
        ("Also, it is old.", "it is old."),
        ("But then it closed.", "it closed."),
        ("**However,** it is old.", "it is old."),
        ("**However**, it is old.", "it is old."),
        ("*Moreover*, it is old.", "it is old."),
        ("However,\u00a0it is old.", "it is old."),
        ("However, in addition, it is old.", "it is old."),
        ("So far it is open.", "So far it is open."),
        ("Next to it stands a tower.", "Next to it stands a tower."),
        ("That is why it closed.", "That is why it closed."),
        ("Butter is sold there.", "Butter is sold there."),
        ("Thusly, it ended.", "Thusly, it ended."),
        ("However,", "However,"),
        ("", ""),
    ],
)
def test_a_connective_is_what_can_be_dropped_at_the_beginning(sentence: str, rest: str) -> None:
    assert sentence[connective(sentence) :] == rest


@pytest.mark.parametrize(
    ("sentence", "place", "kind", "rest"),
    [
        ("First, wait.", 1, "ordinal", "wait."),
        ("Firstly, wait.", 1, "ordinal", "wait."),
        ("First of all, wait.", 1, "ordinal", "wait."),
        ("Second, wait.", 2, "ordinal", "wait."),
        ("**Third,** wait.", 3, "ordinal", "wait."),
        ("Second the light turns green.", 2, "ordinal", "the light turns green."),
        ("On the one hand, it is old.", 1, "hand", "it is old."),
        ("On the other hand, it is open.", 2, "hand", "it is open."),
        ("The second reason is cost.", 2, "ordinal", "The second reason is cost."),
        ("A third bridge stands there.", 3, "ordinal", "A third bridge stands there."),
    ],
)
def test_a_place_in_an_enumeration(sentence: str, place: int, kind: str, rest: str) -> None:
    number = ordinal_of(sentence)
    assert number is not None
    assert (number.place, number.kind, sentence[number.length :]) == (place, kind, rest)


@pytest.mark.parametrize(
    "sentence", ["The Second World War ended in 1945.", "Seconds count.", "Secondly,", "Two wait."]
)
def test_no_place_in_an_enumeration(sentence: str) -> None:
    assert ordinal_of(sentence) is None


@pytest.mark.parametrize(
    ("sentence", "rest"),
    [
        ("It is, however, old.", "It is old."),
        ("It is closed, however.", "It is closed."),
        ("Bats, for example, fly.", "Bats fly."),
        ("It is old; the tower, however, is new.", None),
        ("It is old, but the tower, however, is new.", None),
        ("It is, of course, old.", None),
    ],
)
def test_an_aside(sentence: str, rest: str | None) -> None:
    place = inner_however(sentence)
    assert (None if place is None else sentence[: place[0]] + sentence[place[1] :]) == rest


@pytest.mark.parametrize(
    ("sentence", "before"),
    [
        ("The latter is older.", "There are two."),
        ("However, the former was sold.", "There are two."),
        ("Both are old.", "There are two."),
        ("Neither is open.", "There are two."),
        ("Of these, one is open.", "There are two."),
        ("Some of them are open.", "There are two."),
        ("The other is shut.", "One is open."),
        ("Otherwise it breaks.", "Hold the button."),
        ("If not, call.", "Is it green?"),
        ("In that case, wait.", "It may be shut."),
        ("This means that it is shut.", "It rained."),
        ("These are shut.", "There are two."),
        ("To do this, clean the grate.", "Lubricate it."),
        ("Once that is done, wait.", "Hold the button."),
        ("This lowers the pressure.", "The chest widens."),
        ("This in turn draws air in.", "The chest widens."),
        ("That same year, it was sold.", "It closed in 2007."),
        ("In the same year it was sold.", "It closed in 2007."),
        ("The following day he left.", "He came in May."),
        ("During this time it was shut.", "It was rebuilt until 1990."),
        ("Two years later, it was sold.", "It closed in 2007."),
        ("However, since then it is open.", "It closed in 2007."),
        ("The first is a film of 2014.", "Two films have this title."),
        ("The first, an author, won a prize.", "Two people have this name."),
        ("The other two are shut.", "One is open."),
        ("Yes, daily.", "Is it open?"),
        ("Because it rained.", "Why is it shut?"),
        ('"However, it is old," he said.', "It is open."),
    ],
)
def test_a_sentence_that_leans_on_the_one_before(sentence: str, before: str) -> None:
    assert depends_on_previous(sentence, before)


@pytest.mark.parametrize(
    ("sentence", "before"),
    [
        ("The former president left.", "It rained."),
        ("Both the tower and the bridge are old.", "It rained."),
        ("Either call or write.", "It rained."),
        ("This bridge is old.", "It rained."),
        ("This species is rare.", "It rained."),
        ("This process ends here.", "It rained."),
        ("This analysis is old, and this bus, too.", "It rained."),
        ("The first bridge is old.", "It rained."),
        ("The next step is easy.", "It rained."),
        ("Two years ago it was sold.", "It rained."),
        ("In 2007, it was sold.", "It rained."),
        ("Thistles are old.", "It rained."),
        ("Yes, daily.", "It is open."),
        ("The other day it rained.", "It is open."),
        ("However, it is old.", "It is open."),
        ('"It is old," he said.', "It is open."),
        ("So far it is open.", "It rained."),
        ("Northern winds blow.", "Is it cold?"),
    ],
)
def test_a_sentence_that_stands_alone(sentence: str, before: str) -> None:
    assert not depends_on_previous(sentence, before)
