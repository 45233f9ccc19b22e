"""Special values and other corners of operators, beside the frameworks that programs come from."""
