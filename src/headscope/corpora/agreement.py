"""Number, gender and person of a mention: by features where a corpus has them, else by its words.

The lexicons are English and small, to be read at a glance; features of Universal Dependencies
speak for any language.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["PRONOUNS", "Agreement", "find_agreement"]


class Agreement(NamedTuple):
    """What a mention and its antecedent should share; None where it is not known."""

    number: str | None = None
    gender: str | None = None
    person: str | None = None


def _pronouns(words: str, *known: str | None) -> Mapping[str, Agreement]:
    return {word: Agreement(*known) for word in words.split()}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PRONOUNS: Mapping[str, Agreement] = {
    **_pronouns("i me my mine myself", "singular", None, "1"),
    **_pronouns("we us our ours ourselves", "plural", None, "1"),
    **_pronouns("you your yours yourself yourselves", None, None, "2"),
    **_pronouns("he him his himself", "singular", "masculine", "3"),
    **_pronouns("she her hers herself", "singular", "feminine", "3"),
    **_pronouns("it its itself this that", "singular", "neuter", "3"),
    **_pronouns("they them their theirs themselves these those", "plural", None, "3"),
    **_pronouns("one oneself who whom whose which", None, None, "3"),
}

MASCULINE = _words(
    """
    man men boy boys father fathers son sons brother brothers husband husbands uncle uncles nephew
    grandfather grandson king kings prince princes duke lord gentleman gentlemen guy guys actor monk
    priest mr mr. sir dad daddy widower waiter policeman fisherman chairman spokesman adam alan
    albert alexander andrew anthony arthur ben benjamin bill bob brian charles chris christopher
    daniel david dennis donald edward eric frank fred gary george gordon harold harry henry hugh ian
    jack james jason jeff jim joe john jonathan joseph kevin larry mark martin matthew michael mike
    nick patrick paul peter philip ralph richard rick robert roger ronald sam scott simon stephen
    steve steven stuart ted thomas tim timothy tom tony victor walter william
    """
)
FEMININE = _words(
    """
    woman women girl girls mother mothers daughter daughters sister sisters wife wives aunt aunts
    niece grandmother granddaughter queen queens princess princesses duchess lady ladies actress nun
    mrs mrs. ms ms. miss madam mom mum widow waitress policewoman chairwoman spokeswoman alice
    amanda amy andrea angela ann anna anne barbara betty carol caroline catherine christine claire
    deborah diana donna dorothy elizabeth ellen emily emma eva frances grace hannah helen irene jane
    janet jennifer jessica joan joanna judith julia julie karen kate katherine kathleen laura linda
    lisa lucy margaret maria marie martha mary michelle nancy nicole olivia pamela patricia rachel
    rebecca rose ruth sandra sara sarah sharon sophie stephanie susan teresa theresa victoria
    virginia
    """
)

FEATURES = {"Sing": "singular", "Plur": "plural", "Masc": "masculine", "Fem": "feminine"}
FEATURES |= {"Neut": "neuter", "1": "1", "2": "2", "3": "3"}
PENN_NUMBER = {"NN": "singular", "NNP": "singular", "NNS": "plural", "NNPS": "plural"}


def find_agreement(
    words: Sequence[str], head: int, features: Mapping[str, str], tag: str | None
) -> Agreement:
    """What is known of a mention from its words, of which `head` stands for it.

    >>> find_agreement(["her", "old", "father"], 2, {}, "NN")
    Agreement(number='singular', gender='masculine', person='3')
    """
    by_word = PRONOUNS.get(words[head].lower())
    known = by_word if by_word and len(words) == 1 else Agreement(person="3")
    is_joined = len(words) > 1 and "and" in [word.lower() for word in words]
    marked = FEATURES.get(features.get("Number", "")) or PENN_NUMBER.get(tag or "")
    return Agreement(
        number="plural" if is_joined else marked or known.number,
        gender=FEATURES.get(features.get("Gender", "")) or known.gender or _gender_of(words, head),
        person=FEATURES.get(features.get("Person", "")) or known.person,
    )


def _gender_of(words: Sequence[str], head: int) -> str | None:
    """By the head word, else by the title or first name before it."""
    for word in (words[head].lower(), words[0].lower()):
        if word in MASCULINE:
            return "masculine"
        if word in FEMININE:
            return "feminine"
    return None
