"""Pictures of a run's tables, each defined once: for notebook, report, SVG, PNG and PDF."""
