"""Other libraries' models, and those of the papers, into a Forest and back."""
