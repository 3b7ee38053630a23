"""Stage 5: the decoder, and the whole Transformer."""
