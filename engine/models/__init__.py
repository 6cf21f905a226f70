"""Model families and the files they come in."""
