"""The tokenization line, and the warning where a model does not know the language."""

import logging

import pytest

from headscope import texts
from headscope.data.example import Example
from headscope.engine.analyze import analyze
from headscope.models.encode import Encoder
from headscope.models.load import load_model
from headscope.view.page import render_report
from headscope.view.terminal import describe_tokenization, doubt_languages
from tests.smollm2 import smollm2_tokenizer

# Article 1 of the Universal Declaration of Human Rights.
KNOWN = {
    "English": "All human beings are born free and equal in dignity and rights. They are endowed "
    "with reason and conscience and should act towards one another in a spirit of brotherhood.",
}
COUSINS = {  # in the same script: cut into more pieces, but not into letters
    "German": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit "
    "Vernunft und Gewissen begabt und sollen einander im Geist der Brüderlichkeit begegnen.",
    "Turkish": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana "
    "sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.",
}
FOREIGN = {
    "Russian": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они "
    "наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.",
    "Arabic": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا وعليهم "
    "أن يعامل بعضهم بعضا بروح الإخاء.",
    "Hindi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। "
    "उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।",
    "Chinese": "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，"
    "并应以兄弟关系的精神相对待。",
    "Korean": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 "
    "천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
}


def doubts_of(encoder: Encoder, text: str) -> list[str]:
    encoding = encoder.encode([Example("a", text=text)], 10**6)[0]
    return doubt_languages({"counts": {"text": {"tokenization": dict(encoding.tokenization)}}})


@pytest.mark.parametrize("language", [*KNOWN, *COUSINS, *FOREIGN])
def test_an_english_wordpiece_model_is_doubted_on_other_scripts_alone(language: str) -> None:
    text = (KNOWN | COUSINS | FOREIGN)[language]
    assert bool(doubts_of(load_model("demo").encoder, text)) == (language in FOREIGN)


@pytest.mark.parametrize("language", [*KNOWN, *COUSINS, *FOREIGN])
def test_an_english_byte_level_model_is_doubted_on_other_scripts_alone(language: str) -> None:
    encoder = Encoder(smollm2_tokenizer(), frozenset({"input_ids"}))
    text = (KNOWN | COUSINS | FOREIGN)[language]
    assert bool(doubts_of(encoder, text)) == (language in FOREIGN)


def test_a_run_says_how_words_became_tokens_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="headscope"):
        run = analyze("demo", text=texts([FOREIGN["Arabic"]]), only="position", progress=False)
    counts = run.manifest["counts"]["text"]
    assert counts["tokenization"]["words"] == 21
    line = describe_tokenization(counts)
    assert line is not None
    assert line.startswith(
        "4.48 pieces per word, 90.5 % of words split, 0.0 % of pieces unknown, 100"
    )
    assert "does not seem to know the language" in caplog.text
    page = render_report(run.tables, run.manifest, [], [])
    assert "Warning." in page
    assert page.count(line) == 2  # in the warning, and in how it was measured


def test_a_run_on_the_models_language_does_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="headscope"):
        run = analyze("demo", text=texts([KNOWN["English"]]), only="position", progress=False)
    assert "language" not in caplog.text
    assert "Warning." not in render_report(run.tables, run.manifest, [], [])


def test_counts_of_an_older_run_have_no_line() -> None:
    assert describe_tokenization({"used": 3}) is None
    assert doubt_languages({"counts": {"text": {"used": 3}}}) == []
