"""The demo: two training programs and the story in which they meet on one A10. The top layer; nothing imports it."""
