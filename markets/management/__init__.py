"""Administrative commands of the market."""
