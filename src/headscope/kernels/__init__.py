"""The few hot loops, compiled."""
