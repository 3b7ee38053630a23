"""What learners edit: one folder a stage."""
