"""Deltabrush, the editor: pictures, masks, settings and the command line around the diffusion engine."""
