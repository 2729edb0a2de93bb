"""Coreference corpora: what is read, and what is said of what cannot be read."""

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headscope.contracts import CorpusRole
from headscope.corpora.coreference import Conll2012, ConlluCoreference
from headscope.corpora.gap import GapCorpus
from headscope.corpora.mentions import Brackets, Span
from headscope.corpora.opening import open_corpus
from headscope.data.example import Example
from headscope.errors import InputError, on_command_line
from tests.shared import shared

HEADER = "ID\tText\tPronoun\tPronoun-offset\tA\tA-offset\tA-coref\tB\tB-offset\tB-coref\tURL"
GAP_ROW = "r1\tAnn met Bea. She left.\tShe\t13\tAnn\t0\tTRUE\tBea\t8\tFALSE\tx"


def conllu(*rows: tuple[str, str, int, str], header: str = "# newdoc id = d") -> str:
    """A document of one sentence: (word, tag, head, Entity)."""
    lines = [
        f"{i}\t{word}\t_\t{tag}\t_\t_\t{head}\t{'root' if head == 0 else 'dep'}\t_\t"
        + (f"Entity={entity}" if entity else "_")
        for i, (word, tag, head, entity) in enumerate(rows, 1)
    ]
    return "\n".join([header, *lines]) + "\n"


def spans_of(example: Example) -> list[tuple[str, str]]:
    words = example.words or ()
    return [(" ".join(words[m.start : m.end]), m.cluster) for m in example.mentions or ()]


def read_one(path: Path, text: str) -> Example:
    path.write_text(text)
    (example,) = open_corpus(path, CorpusRole.COREF)
    return example


@st.composite
def nested_spans(draw: st.DrawFn) -> tuple[int, list[Span]]:
    """Spans that nest or lie apart, as brackets can write them; none stands twice."""
    n_words = draw(st.integers(1, 12))
    spans: set[Span] = set()

    def fill(start: int, end: int, depth: int) -> None:
        while start < end and depth < 4:
            stop = draw(st.integers(start + 1, end))
            if draw(st.booleans()):
                spans.add(Span(start, stop, f"e{draw(st.integers(0, 4))}"))
                fill(start, stop, depth + 1)
            start = stop

    fill(0, n_words, 0)
    return n_words, list(spans)


def write_brackets(n_words: int, spans: list[Span], fields: str = "") -> list[str]:
    texts: dict[int, str] = defaultdict(str)
    for word in range(n_words):
        for span in sorted(spans, key=lambda s: -s.end):
            if span.start == word and span.end > word + 1:
                texts[word] += f"({span.cluster}{fields}"
        for span in spans:
            if span.start == word and span.end == word + 1:
                texts[word] += f"({span.cluster}{fields})"
        for span in sorted(spans, key=lambda s: -s.start):
            if span.end == word + 1 and span.start < word:
                texts[word] += f"{span.cluster})"
    return [texts[word] for word in range(n_words)]


@given(nested_spans(), st.sampled_from(["", "-person", "-person-giv:act-1"]))
def test_brackets_written_and_read_give_the_same_spans(
    made: tuple[int, list[Span]], fields: str
) -> None:
    n_words, spans = made
    brackets = Brackets(Path("made"))
    for word, text in enumerate(write_brackets(n_words, spans, fields)):
        if text:
            brackets.read(word, word + 1, text)
    assert set(brackets.finish()) == set(spans)


@pytest.mark.parametrize(
    ("texts", "line", "message"),
    [
        (["(1", "", ""], 1, "never ends"),
        (["", "1)", "(1"], 2, "did not begin"),
        (["(1", "2)", "1)"], 2, "did not begin"),
        (["1", "", ""], 1, "is not a mention"),
        (["(1)x", "", ""], 1, "is not a mention"),
        (["(e1[1/2]-x)", "", ""], 1, "several parts"),
    ],
)
def test_bad_brackets_are_named_with_their_line(texts: list[str], line: int, message: str) -> None:
    brackets = Brackets(Path("made.conllu"))
    with pytest.raises(InputError, match=f"made.conllu:{line}: .*{message}"):
        read_all(brackets, texts)


def read_all(brackets: Brackets, texts: list[str]) -> None:
    for word, text in enumerate(texts):
        if text:
            brackets.read(word, word + 1, text)
    brackets.finish()


def test_heads_kinds_and_clusters_come_from_the_tree_and_tags(tmp_path: Path) -> None:
    text = conllu(
        ("The", "DET", 2, "(1"),
        ("keeper", "NOUN", 5, ""),
        ("of", "ADP", 4, ""),
        ("Mull", "PROPN", 2, "(2)1)"),
        ("lost", "VERB", 0, ""),
        ("her", "PRON", 7, "(3(1)"),
        ("lamp", "NOUN", 5, "3)"),
    )
    example = read_one(tmp_path / "a.conllu", text)
    assert example.id == "d"
    assert spans_of(example) == [
        ("The keeper of Mull", "1"),
        ("Mull", "2"),
        ("her lamp", "3"),
        ("her", "1"),
    ]
    mentions = example.mentions or ()
    assert [m.head for m in mentions] == [1, 3, 6, 5]
    assert [m.kind for m in mentions] == ["nominal", "proper", "nominal", "pronoun"]
    assert [m.is_singleton for m in mentions] == [False, True, True, False]
    assert mentions[3].gender == "feminine"


@pytest.mark.parametrize(
    ("header", "opening", "closing"),
    [
        ("# global.Entity = eid-etype-head-other", "(e1-person-1-x", "e1)"),
        ("# global.Entity = etype-GRP-infstat", "(person-e1-new", "person-e1)"),
        ("# global.Entity = GRP", "(e1", "e1)"),
    ],
)
def test_the_header_says_which_field_names_the_cluster(
    tmp_path: Path, header: str, opening: str, closing: str
) -> None:
    rows = [("Old", "ADJ", 2, opening), ("men", "NOUN", 0, closing)]
    example = read_one(tmp_path / "a.conllu", conllu(*rows, header=f"# newdoc\n{header}"))
    assert spans_of(example) == [("Old men", "e1")]


def test_marks_before_a_blank_line_divide_documents_and_name_the_field(tmp_path: Path) -> None:
    one = conllu(("Ann", "PROPN", 0, "(person-e1)"), header="")
    marks = ["# global.Entity = etype-eid\n# newdoc id = a\n", "# newdoc id = b\n"]
    (tmp_path / "a.conllu").write_text("".join(f"{mark}\n{one}\n" for mark in marks))
    first, second = open_corpus(tmp_path / "a.conllu", CorpusRole.COREF)
    assert [first.id, second.id] == ["a", "b"]
    assert spans_of(first) == spans_of(second) == [("Ann", "e1")]


def test_a_file_without_newdoc_is_one_document_and_documents_keep_sentences(
    tmp_path: Path,
) -> None:
    one = conllu(("He", "PRON", 2, "(1)"), ("left", "VERB", 0, ""), header="# sent_id = 1")
    example = read_one(tmp_path / "a.conllu", f"{one}\n{one}")
    assert example.sentences == (0, 2)
    assert [m.start for m in example.mentions or ()] == [0, 2]
    two = f"{one}\n{one}".replace("# sent_id = 1", "# newdoc")
    (tmp_path / "b.conllu").write_text(two)
    assert [e.id for e in ConlluCoreference(tmp_path / "b.conllu")] == ["b.conllu:1", "b.conllu:2"]


CONLL2012 = """#begin document (bc/a); part 003
bc/a  3  0  The     DT   (TOP(S(NP(NP*  -  -  -  -  *  (7
bc/a  3  1  mayor   NN             *)  -  -  -  -  *  -
bc/a  3  2  of      IN          (PP*  -  -  -  -  *  -
bc/a  3  3  Wick    NNP       (NP*)))  -  -  -  -  *  (2)|7)
bc/a  3  4  left    VBD          (VP*)  -  -  -  -  *  -
bc/a  3  5  .       .             *))  -  -  -  -  *  -

bc/a  3  0  Ann     NNP  (TOP(S(NP(NP*  -  -  -  -  *  (8
bc/a  3  1  's      POS            *)  -  -  -  -  *  -
bc/a  3  2  boat    NN             *)  -  -  -  -  *  8)
bc/a  3  3  sank    VBD         (VP*))  -  -  -  -  *  -
bc/a  3  4  He      PRP   (NP*))  -  -  -  -  *  (7)

#end document
"""


def test_conll_2012_gives_parts_parses_and_bars(tmp_path: Path) -> None:
    example = read_one(tmp_path / "a.v4_gold_conll", CONLL2012)
    assert example.id == "bc/a.3"
    assert example.sentences == (0, 6)
    assert spans_of(example) == [
        ("The mayor of Wick", "7"),
        ("Wick", "2"),
        ("Ann 's boat", "8"),
        ("He", "7"),
    ]
    words = example.words or ()
    assert [words[m.head] for m in example.mentions or ()] == ["mayor", "Wick", "boat", "He"]
    assert [m.kind for m in example.mentions or ()] == ["nominal", "proper", "nominal", "pronoun"]


def test_litbank_rows_without_tags_end_in_a_tab(tmp_path: Path) -> None:
    rows = [("The", "(1"), ("keeper", ""), ("of", ""), ("Mull", "1)"), ("slept", "")]
    lines = [
        "\t".join(["doc", "0", str(i), word, *["_"] * 8, mark or "_", ""])
        for i, (word, mark) in enumerate(rows)
    ]
    text = "#begin document (doc); part 0\n" + "\n".join(lines) + "\n\n#end document\n"
    example = read_one(tmp_path / "a.conll", text)
    (mention,) = example.mentions or ()
    assert spans_of(example) == [("The keeper of Mull", "1")]
    assert mention.head == 1  # the last word before what modifies it
    assert mention.kind == "nominal"


def test_gap_gives_a_pronoun_and_two_names(tmp_path: Path) -> None:
    example = read_one(tmp_path / "gap.tsv", f"{HEADER}\n{GAP_ROW}\n")
    assert spans_of(example) == [("She", "Pronoun"), ("Ann", "Pronoun"), ("Bea", "B")]
    assert [m.kind for m in example.mentions or ()] == ["pronoun", "proper", "proper"]
    assert example.words == ("Ann", "met", "Bea", ".", "She", "left", ".")
    assert example.spaces == (False, True, True, False, True, True, False)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.conllu", conllu(("He", "PRON", 0, "(1")), r"a.conllu:2: .* never ends"),
        ("a.conllu", conllu(("He", "PRON", 0, "")), "no mention in the whole file"),
        ("a.conllu", conllu(("He", "PRON", 7, "(1)")), "has head 7, outside the sentence"),
        ("a.conll", "bc 0 0 He PRP - (1)\n", "a.conll:1: this row is outside a document"),
        ("a.conll", "#begin document (a);\nbc 0 0 He PRP * (1)\n", "never ends"),
        ("a.conll", "#begin document (a);\nbc 0 He\n#end document\n", "a.conll:2: 3 columns"),
        (
            "a.conll",
            "#begin document (a);\nbc 0 0 He PRP (S* (1)\n#end document\n",
            "a.conll:2: the parse leaves the phrase S open",
        ),
        ("a.tsv", "ID\tText\n", "a.tsv:1: no column Pronoun"),
        ("a.tsv", f"{HEADER}\n{GAP_ROW.replace('13', '14')}\n", "a.tsv:2: Pronoun is 'She'"),
        ("a.tsv", f"{HEADER}\n{GAP_ROW.replace('TRUE', 'YES')}\n", "A-coref is 'YES'"),
        ("a.tsv", f"{HEADER}\nr1\tshort\n", "a.tsv:2: 2 columns"),
    ],
)
def test_bad_files_are_refused_with_path_line_and_remedy(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message) as raised:
        list(open_corpus(tmp_path / name, CorpusRole.COREF))
    assert "Expected" in str(raised.value)


GOOD = conllu(("He", "PRON", 2, "(1)"), ("left", "VERB", 0, ""))


def test_one_bad_file_does_not_hide_the_others(tmp_path: Path) -> None:
    for name, text in {"a": GOOD, "b": "junk\n", "c": GOOD.replace("(1)", "(1")}.items():
        (tmp_path / f"{name}.conllu").write_text(text)
    with pytest.raises(InputError, match="2 of the 3 files") as raised:
        list(open_corpus(tmp_path, CorpusRole.COREF))
    assert "b.conllu:1" in str(raised.value)
    assert "c.conllu:2" in str(raised.value)
    assert "pass skip_bad" in str(raised.value)
    with on_command_line():
        assert "--skip-bad" in str(raised.value)
    kept = open_corpus(tmp_path, CorpusRole.COREF, skip_bad=True)
    assert [example.id for example in kept] == ["a.conllu/d"]
    assert list(getattr(kept, "skipped_files")) == ["b.conllu", "c.conllu"]  # noqa: B009


def test_a_folder_of_only_bad_files_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.conllu").write_text("junk\n")
    with pytest.raises(InputError, match="2 of the 2 files"):
        list(open_corpus(tmp_path, CorpusRole.COREF, skip_bad=True))


def test_real_corpora_have_the_mentions_they_should() -> None:
    documents = list(open_corpus(shared("data/coref/ontogum"), CorpusRole.COREF))
    assert len(documents) == 70
    sizes = [len(document.mentions or ()) for document in documents]
    assert sum(sizes) > 7000
    gap = list(GapCorpus(shared("data/coref/gap-development.tsv")))
    pronouns = [m for e in gap for m in e.mentions or () if m.kind == "pronoun"]
    genders = [m.gender for m in pronouns]
    assert len(pronouns) == len(gap) == 2000
    assert genders.count("masculine") == genders.count("feminine") == 1000


def test_conll_2012_is_what_conll_means_for_coreference(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text(CONLL2012)
    assert isinstance(open_corpus(tmp_path / "a.conll", CorpusRole.COREF), Conll2012)
