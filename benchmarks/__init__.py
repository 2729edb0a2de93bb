"""What headscope costs, measured as ratios: `python -m benchmarks`."""
