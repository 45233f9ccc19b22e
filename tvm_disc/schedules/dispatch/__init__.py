"""Selection of the variant for a shape: variants, costs, decision trees, learning."""
