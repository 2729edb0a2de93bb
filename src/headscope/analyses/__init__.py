"""What can be asked of a model, one folder a question: `measure.py` and `show.py`."""
