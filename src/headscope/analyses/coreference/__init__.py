"""Heads as coreference resolvers: does a mention attend most to its antecedent? (paper, 4.3)"""

from headscope.analyses.coreference.measure import Coreference
from headscope.analyses.coreference.show import PRESENTATION

__all__ = ["PRESENTATION", "Coreference"]
