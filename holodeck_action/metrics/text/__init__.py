"""Text similarity without a model, as pure functions: BLEU, ROUGE, METEOR and token F1."""
