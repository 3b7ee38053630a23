"""The class page: one HTML file that opens from disk and asks no network for anything."""
