"""Examples to attention: loading a model, encoding, batching, and the tap."""
