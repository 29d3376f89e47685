"""Models that the lessons train. Keras is imported on first use, inside the functions."""
