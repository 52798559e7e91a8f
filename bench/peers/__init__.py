"""Ways of saving a training state, ours among them, behind one small interface, so that all are measured alike."""
