"""Several runs beside each other: differences, a series of checkpoints, an atlas of models."""
