"""What is watched while the server runs: metrics for Prometheus, baselines and alerts."""
