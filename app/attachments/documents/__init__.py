"""Extract text from documents and scale images, in separate worker processes."""
