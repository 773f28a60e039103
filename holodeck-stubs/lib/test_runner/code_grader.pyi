from holodeck_action.workers.grading import GraderContext as GraderContext
from holodeck_action.workers.grading import GraderResult as GraderResult
