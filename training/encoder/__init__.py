"""An encoder: its folder, its weights, the machine it runs on, and the packed way through its model."""
