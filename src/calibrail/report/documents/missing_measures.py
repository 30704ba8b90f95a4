"""Why is a measure, or an end of its interval, missing, in words?"""

from typing import Final

#: By code; the numbers that follow a code, after colons, fill its gaps.
WORDS: Final = {
    "no_faithful": "there is no faithful example",
    "no_hallucinated": "there is no hallucinated example",
    "densities_unbounded_below": (
        "two samples bound from above how much two distributions share, but never from below"
    ),
    "few_to_miss": (
        "no score is surely below the threshold that misses this share: that takes {} independent "
        "hallucinated answers"
    ),
    "few_for_the_corner": (
        "it has no interval, since at high coverage it rests on few answers: that takes {} "
        "independent test answers of each class"
    ),
    "one_class": "both classes need at least one example",
    "few_defined_faithful": "fewer than two faithful examples have a defined score",
    "few_defined_hallucinated": "fewer than two hallucinated examples have a defined score",
    "constant_within_classes": "the score does not vary within either class",
    "value_too_large": "the value is too large to hold",
    "statistic_too_large": "the statistic is too large to hold",
    "one_is_constant": "one of the two does not vary",
    "few_have_both": "fewer than 3 answers have both",
    "few_have_both_or_constant": (
        "fewer than three answers have both scores, or one of the two does not vary"
    ),
    "few_alike": (
        "only {} hallucinated and {} faithful answers are alike in it ({} of each are needed)"
    ),
    "bins_uneven": "no bins are narrow enough to make pairs alike and wide enough to hold any",
    "none_alike": "no two answers are alike",
    "none_alike_of_both_classes": "no two answers of both classes are alike",
    "undetermined": "the score does not vary, or the feature determines score or label",
    "nothing_to_explain": (
        "the AUROC is not shown to differ from 0.5, so there is nothing to explain"
    ),
    "nothing_removed": "nothing is removed",
    "nothing_marked": "nothing is marked",
    "few_answers_removed": (
        "it has no interval: that takes {} independent answers of which something is removed"
    ),
    "few_answers_marked": (
        "it has no interval: that takes {} independent answers in which something is marked"
    ),
    "no_group_of_two": "no group holds two answers",
    "few_groups_to_fit": "there are too few groups to fit on one part and try on another",
    "few_strata": "fewer than two strata hold {} answers of each class",
    "no_such_answer": "there is no such answer in the test part",
    "no_supported": "no answer holds a supported sentence",
    "sentences_of_one_answer": "sentences of one answer are not independent",
    "sentences_without_labels": "not every sentence has a label",
    "more_requests": (
        "the sentences' scores are not in the cache, and a report sends no requests of its own"
    ),
    "few_groups_for_strata": "too few groups for so many strata",
}


def spell(reason: str) -> str:
    """Return the words of a code; what is no code, unchanged.

    Examples
    --------
    >>> spell("few_strata:10"), spell("the judge failed")
    ('fewer than two strata hold 10 answers of each class', 'the judge failed')
    """
    code, *numbers = reason.split(":")
    return WORDS[code].format(*numbers) if code in WORDS else reason
