from holodeck_action.extensions.holodeck.models import ExpectedTool as ExpectedTool
from holodeck_action.suite.model.cases import FileInput as FileInput
from holodeck_action.extensions.holodeck.models import FuzzyMatcher as FuzzyMatcher
from holodeck_action.extensions.holodeck.models import LiteralMatcher as LiteralMatcher
from holodeck_action.extensions.holodeck.models import RegexMatcher as RegexMatcher
from holodeck_action.extensions.holodeck.models import TestCase as TestCase
from holodeck_action.extensions.holodeck.models import TestCase
TestCaseModel = TestCase
from holodeck_action.extensions.holodeck.models import Turn as Turn
