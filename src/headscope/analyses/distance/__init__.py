"""How alike heads attend: Jensen-Shannon divergence between every two heads (paper, section 6)."""

from headscope.analyses.distance.measure import Distance
from headscope.analyses.distance.show import PRESENTATION

__all__ = ["PRESENTATION", "Distance"]
