"""Administrative commands of this app."""
