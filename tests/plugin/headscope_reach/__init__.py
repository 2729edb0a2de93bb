"""How far away do heads look? An analysis for headscope."""
