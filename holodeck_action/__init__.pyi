from holodeck_action.api import *  # noqa: F403 - these are the public names

__version__: str
