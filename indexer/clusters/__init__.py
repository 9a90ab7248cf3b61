"""Find, name, score and save clusters of passages, and match them to earlier ones."""
