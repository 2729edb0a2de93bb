"""Classifiers over all heads together (paper, section 5); the only code that trains."""
