"""Heads as dependency parsers: does a word attend most to its syntactic head? (paper, 4.2)"""

from headscope.analyses.dependency.measure import Dependency
from headscope.analyses.dependency.show import PRESENTATION

__all__ = ["PRESENTATION", "Dependency"]
