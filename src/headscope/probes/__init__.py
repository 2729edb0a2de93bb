"""Classifiers over all heads together (paper, section 5); the only code that trains."""

__all__ = ["UNTRAINED_PREFIX"]

UNTRAINED_PREFIX = "random-init-"  # of the probes over the same model without its training
