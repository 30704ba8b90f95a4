"""Which words say little about whether an answer is supported?"""

from typing import Final

_ENGLISH: Final = """
    a about above after again against all also although always am among an and any are aren't
    around as at be became because become been before being below between both but by can
    can't cannot could couldn't did didn't do does doesn't doing don't down during each either
    else etc ever every few for from further had hadn't has hasn't have haven't having he he'd
    he'll he's her here here's hers herself him himself his how however i i'd i'll i'm i've if
    in into is isn't it it's its itself just let's like may me might more most much must my
    myself neither no nor not now of off often on once one's only or other others our ours
    ourselves out over own per perhaps quite rather same shall she she'd she'll she's should
    shouldn't since so some such than that that's the their theirs them themselves then there
    there's therefore these they they'd they'll they're they've this those though through thus
    to too toward towards under until up upon us very was wasn't we we'd we'll we're we've
    were weren't what what's when where where's whether which while who who's whom whose why
    will with within without won't would wouldn't yet you you'd you'll you're you've your
    yours yourself yourselves
"""

#: Function words of English: they say little about whether an answer is supported.
STOP_WORDS: Final = frozenset(_ENGLISH.split())
