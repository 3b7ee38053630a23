"""Stage 6: training, and a translator from Chinese to English."""
