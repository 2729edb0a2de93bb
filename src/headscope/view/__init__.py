"""The toolkit of every `show.py`: figures, tables, claims, cards, drawings."""
