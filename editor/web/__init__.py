"""The web page, the only part of the editor that knows Gradio."""
