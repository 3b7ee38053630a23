"""Stage 2: splitting and merging heads, and the multi-head attention layer."""
