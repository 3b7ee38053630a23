"""Stage 7: a GPT, and the text that it writes."""
