"""What is measured, simulated and compared beside the package."""
