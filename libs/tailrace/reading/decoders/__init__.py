"""Keys, values and headers as what JSON can say."""
