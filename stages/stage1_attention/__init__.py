"""Stage 1: masks, scaled dot-product attention, and a layer with one head."""
