"""One picture a file: data in, axes out."""
