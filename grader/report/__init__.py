"""Views of a `StageResult`: each module here turns the one typed result into something to read."""
