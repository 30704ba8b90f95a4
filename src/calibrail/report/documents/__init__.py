"""What does each command say? One file a command, and no sentence for users anywhere else."""
