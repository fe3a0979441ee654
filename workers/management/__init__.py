"""Commands of the operator's side of the floor."""
