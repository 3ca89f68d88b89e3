"""Weight encodings: recipes, quantisation, and the check that the target delegate supports the result."""
