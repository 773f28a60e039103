"""Text similarity against a reference, without a model: BLEU, ROUGE, METEOR and token F1 as pure functions."""
