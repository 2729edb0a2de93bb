"""Bad inputs by the thousand: mutations of good files, and oracles that say what may not be lost.

`python -m tests.fuzz` (`make fuzz`) runs the campaign; `test_mutations.py` is a small one.
"""
