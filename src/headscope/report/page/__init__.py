"""The report: a run as one HTML page that loads nothing."""
