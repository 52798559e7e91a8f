"""Applications with checkpoints of their own: what the launcher has to know of each, behind one small port."""
