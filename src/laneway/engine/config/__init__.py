"""What files and the environment declare: lanes and jobs of `laneway.toml`."""
