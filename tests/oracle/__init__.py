"""The real delegate as the judge of the rules: many small files, and what each side says of them."""
