"""A debugging gym: eight runs that went wrong, to be diagnosed from what they show."""
