"""What to do, doing it, and what comes out: studies, the engine, run folders."""
