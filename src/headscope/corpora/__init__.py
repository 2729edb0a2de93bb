"""Files to examples, one format a file; `open_corpus` picks the format."""
