"""How weights are stored: recipes, quantisation, and the check that a target accepts the result."""
