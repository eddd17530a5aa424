"""Speed and quality, each a command that prints JSON. Speeds are ratios within one run, for machines are noisy."""
