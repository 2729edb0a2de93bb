"""Commands that have a file of their own."""
