"""What a sentence encoder is trained for."""
