"""Drawing for terminals, Markdown, HTML and notebooks: analyses return data, these draw it."""
