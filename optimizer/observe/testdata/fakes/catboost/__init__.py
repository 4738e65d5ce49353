__version__ = "9.9"
