"""The values that flow: examples, encodings, attention, tallies, tables."""
