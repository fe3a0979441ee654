"""Administrative commands that compose the whole product."""
