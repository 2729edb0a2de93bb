"""The paper's findings as data, each with a check on the tables of a run."""
