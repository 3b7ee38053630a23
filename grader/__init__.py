"""The engine that grades the course. It knows no stage by name: a stage is a folder plus a few lines in course.toml."""

__version__ = "0.1.0"
