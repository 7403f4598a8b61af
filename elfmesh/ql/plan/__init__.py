"""What a statement means: frozen data between the text and the engine."""
