"""Stage 4: layer norm, the feed-forward network, the encoder layer and the encoder."""
