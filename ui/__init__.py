"""The page: Gradio blocks, its own routes and static files; knows nothing of the command line."""
