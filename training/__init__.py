"""What ships in `assets/` and is made by a program: how it is made."""
