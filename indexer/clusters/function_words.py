"""Words that hold sentences together and say nothing of what they are about."""

import functools

__all__ = ["function_words"]

# What scikit-learn's list lacks: contractions and their pieces, and verbs that go with anything.
_MORE = """
aren't can't couldn't didn't doesn't don't hadn't hasn't haven't isn't mustn't near shan't shouldn't wasn't
weren't won't wouldn't i'd i'll i'm i've you'd you'll you're you've he'd he'll she'd she'll it'd it'll
we'd we'll we're we've they'd they'll they're they've here's how's it's let's that's there's what's
when's where's who's why's didn doesn don hadn hasn haven isn mustn shan shouldn wasn weren won wouldn
ain ll ve re able came come comes did does doing done e.g eg etc gets getting goes going gone got i.e ie
just know knows let lets like made make makes much new old one really said say says seem seems take taken
takes thing things think three took two use used uses using vs want wanted wants way ways went
"""


@functools.cache
def function_words() -> frozenset[str]:
    """Those of English: scikit-learn's, and some more.

    Those of other languages are told by their standing in all clusters alike: see
    `nearsay.indexer.clusters.names`.
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return frozenset(ENGLISH_STOP_WORDS) | frozenset(_MORE.split())
