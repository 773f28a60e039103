"""The codecs beside the packages that made the same requests."""
