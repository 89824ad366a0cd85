"""One module a library."""
