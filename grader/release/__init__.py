"""Cuts the repository of a class: what learners get, without solutions and hidden checks, and proves that it is so."""
