"""Stage 8: a KV cache, and decoding that computes each key and value once."""
