"""Grades the submissions of a class: each finished check is kept, so a run can end at any moment and go on later."""
