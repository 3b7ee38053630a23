"""The corpora of the course, and the generator of the large one."""
