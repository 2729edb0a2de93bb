"""The live view: every head on any text, in the browser, and as one file."""
