"""Small good files of every corpus format; cases are made of them."""

from typing import NamedTuple

from headscope.contracts import CorpusRole

__all__ = ["SEEDS", "Seed"]


class Seed(NamedTuple):
    """A good file and what it is read as."""

    name: str
    role: CorpusRole
    content: str


def _row(id: str, form: str, tag: str, head: str, relation: str, misc: str = "_") -> str:
    return "\t".join([id, form, form.lower(), tag, tag[:2], "_", head, relation, "_", misc])


TREES = "\n".join(
    [
        "# newdoc id = harbour",
        "# sent_id = harbour-1",
        "# text = Don't sail home.",
        _row("1-2", "Don't", "_", "_", "_"),
        _row("1", "Do", "AUX", "3", "aux"),
        _row("2", "n't", "PART", "3", "advmod"),
        _row("3", "sail", "VERB", "0", "root"),
        _row("4", "home", "ADV", "3", "advmod", "SpaceAfter=No"),
        _row("5", ".", "PUNCT", "3", "punct"),
        "",
        "# newpar",
        "# sent_id = harbour-2",
        _row("1", "Boats", "NOUN", "2", "nsubj"),
        _row("2", "wait", "VERB", "0", "root"),
        _row("2.1", "there", "ADV", "_", "_"),
        "",
        "# newdoc id = hill",
        "# sent_id = hill-1",
        _row("1", "Bees", "NOUN", "2", "nsubj"),
        _row("2", "fly", "VERB", "0", "root"),
        "",
    ]
)
ENTITIES = "\n".join(
    [
        "# newdoc id = shore",
        "# global.Entity = eid-etype-head",
        "# sent_id = shore-1",
        _row("1", "Ann", "PROPN", "2", "nsubj", "Entity=(e1-person-1)"),
        _row("2", "saw", "VERB", "0", "root"),
        _row("3", "the", "DET", "4", "det", "Entity=(e2-place-2"),
        _row("4", "sea", "NOUN", "2", "obj", "Entity=e2)|SpaceAfter=No"),
        _row("5", ".", "PUNCT", "2", "punct"),
        "",
        "# sent_id = shore-2",
        _row("1", "She", "PRON", "2", "nsubj", "Entity=(e1-person-1)"),
        _row("2", "smiled", "VERB", "0", "root"),
        "",
    ]
)
BRACKETS = """#begin document (bay); part 000
bay 0 0 Ann NNP (TOP(S(NP*) - (1)
bay 0 1 saw VBD (VP* - -
bay 0 2 the DT (NP* - (2
bay 0 3 sea NN *)) - 2)
bay 0 4 . . *)) - -

bay 0 0 She PRP (TOP(S(NP*) - (1)
bay 0 1 smiled VBD (VP*))) - -

#end document
#begin document (bay); part 001
bay 1 0 It PRP (TOP*) - (3)
#end document
"""
CHOICES = (
    "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL\n"
    "r1\tAnn met Bea. She left.\tShe\t13\tAnn\t0\tTRUE\tBea\t8\tFALSE\tu/1\n"
    "r2\tTom Roe told Jim of his boat.\this\t20\tTom Roe\t0\tFALSE\tJim\t13\tTRUE\tu/2\n"
)
RECORDS = """{"id": "a", "text": "The boat sails home.", "text_pair": "Das Boot segelt heim."}
{"id": 7, "words": ["Bees", "fly", "far"], "document": "hill"}

{"text": "one two", "text_pair": "eins zwei", "alignment": "0-0 1p1"}
"""
PARAGRAPHS = "The boat sails home.\nNobody sees it.\nLate.\n\nBees fly far.\nThe sea is wide.\n"

SEEDS = (
    Seed("a.txt", CorpusRole.TEXT, PARAGRAPHS),
    Seed("a.jsonl", CorpusRole.TEXT, RECORDS),
    Seed("a.conllu", CorpusRole.TEXT, TREES),
    Seed("a.conllu", CorpusRole.TREEBANK, TREES),
    Seed("b.conllu", CorpusRole.COREF, ENTITIES),
    Seed("a.conll", CorpusRole.COREF, BRACKETS),
    Seed("a.tsv", CorpusRole.COREF, CHOICES),
)
