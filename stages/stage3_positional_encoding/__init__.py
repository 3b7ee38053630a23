"""Stage 3: sinusoidal, learned and rotary positions."""
