"""What a run says of opening and closing tokens has the names of the model's own tokenizer."""

import pytest

import headscope as hs
from headscope.view.answer import choose_answers
from tests.models.slow import MarkedPieces
from tests.models.test_seq2seq import LIKE_BART
from tests.models.tiny import FAMILIES, SENTENCES, build_model, build_tokenizer

QUICK = {"progress": False, "examples": False, "only": "special-tokens,entropy"}
PAPER = ("[CLS]", "[SEP]")


def translate() -> hs.Run:
    """Marian's kind: no token opens the source, <pad> opens the target."""
    special = {"pad_token_id": 2, "eos_token_id": 0, "decoder_start_token_id": 2}
    model = build_model("marian", **LIKE_BART | special)
    words = ["the", "boat", "sails", "one", "two", "do"]
    texts = [" ".join(words[n % 6 :] + words[: n % 6]) for n in range(30)]
    pairs = [hs.Example(str(n), text=text, text_pair=text) for n, text in enumerate(texts)]
    return hs.analyze(model, tokenizer=MarkedPieces(), text=pairs, **QUICK)


def measure(name: str) -> hs.Run:
    tokenizer = build_tokenizer(FAMILIES[name].tokenizer)
    return hs.analyze(build_model(name), tokenizer=tokenizer, text=SENTENCES, **QUICK)


def sentences(run: hs.Run) -> str:
    """All that it says of this model in answers and claims."""
    answers = choose_answers(run.tables, most=99, model=run.manifest["model"])
    shown = [finding.shows for finding in run.findings if finding.verdict != "not measured"]
    return " ".join([*(f"{answer.text} {answer.detail}" for answer in answers), *shown])


def test_the_opening_token_of_a_decoder_has_its_own_name() -> None:
    run = translate()
    names = run.manifest["model"]["special_tokens"]
    assert names == {"opening": "", "closing": "</s>", "decoder opening": "<pad>"}
    said = sentences(run)
    assert "the opening token (<pad>)" in said
    assert "</s>" in said
    assert not any(name in said for name in PAPER)


@pytest.mark.parametrize(
    ("name", "opening", "closing"), [("bert", *PAPER), ("roberta", "<s>", "</s>")]
)
def test_tokens_are_named_as_the_tokenizer_names_them(
    name: str, opening: str, closing: str
) -> None:
    run = measure(name)
    assert run.manifest["model"]["special_tokens"] == {"opening": opening, "closing": closing}
    said = sentences(run)
    assert opening in said
    assert closing in said
    assert name == "bert" or not any(paper in said for paper in PAPER)
