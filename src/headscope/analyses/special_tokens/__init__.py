"""Attention to special tokens and punctuation, and from special tokens (paper, section 3.2)."""

from headscope.analyses.special_tokens.measure import SpecialTokens
from headscope.analyses.special_tokens.show import PRESENTATION

__all__ = ["PRESENTATION", "SpecialTokens"]
