"""What can be asked of attention, one analysis a file."""
