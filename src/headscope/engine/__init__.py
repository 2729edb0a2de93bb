"""Doing it: plan, measure, add up, and go on after a stop."""
