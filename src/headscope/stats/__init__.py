"""Sums over examples, and what follows from them: intervals, held-out scores, rankings."""
