"""The embedded corpus: our own small documents with trees and coreference."""

from pathlib import Path

__all__ = ["STARTER"]

STARTER = Path(__file__).with_name("starter.conllu")
