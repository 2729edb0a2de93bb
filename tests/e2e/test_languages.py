"""Treebanks of several languages in one command: one table, one comparison."""

from itertools import product
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from headscope.cli import app

KEEPERS = ("Wärterin", "Müllerin", "Königin", "Schäferin", "Bäckerin", "Nachbarin")
THINGS = ("Lampe", "Tür", "Straße", "Brücke", "Glocke", "Mühle")


def german_sentence(keeper: str, thing: str) -> str:
    """`Die alte … sah die … .`, with its tree."""
    rows = [
        ("Die", 3, "det"),
        ("alte", 3, "amod"),
        (keeper, 4, "nsubj"),
        ("sah", 0, "root"),
        ("die", 6, "det"),
        (thing, 4, "obj"),
        (".", 4, "punct"),
    ]
    lines = [
        f"{i}\t{word}\t_\t_\t_\t_\t{head}\t{relation}\t_\t_"
        for i, (word, head, relation) in enumerate(rows, 1)
    ]
    return "\n".join(lines) + "\n"


def test_treebanks_of_two_languages_give_one_table_and_a_comparison(tmp_path: Path) -> None:
    german = tmp_path / "german.conllu"
    german.write_text("\n".join(german_sentence(k, t) for k, t in product(KEEPERS, THINGS)))
    arguments = ["analyze", "demo", "--treebank", "starter", "--treebank", str(german)]
    arguments += [
        "--only",
        "dependency",
        "--limit",
        "100",
        "--block-sentences",
        "1",
        "--no-report",
        "--out",
        str(tmp_path / "run"),
    ]
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, arguments)
    assert done.exit_code == 0, done.output
    best = pd.read_csv(tmp_path / "run/tables/dependency-best.csv")
    of_german = best[best["treebank"] == "german.conllu"].set_index("relation")
    assert set(best["treebank"]) == {"starter.conllu", "german.conllu"}
    assert of_german.loc["det", "count"] == 2 * len(KEEPERS) * len(THINGS)
    assert of_german.loc["nsubj", "accuracy"] > 0.9  # the verb always follows
    comparison = done.stdout.partition("found by a head")[2]
    assert "german.conllu" in comparison.partition("det ")[2].partition("\n")[0]
    assert "starter.conllu" in comparison
