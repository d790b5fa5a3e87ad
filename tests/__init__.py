"""Before any module of app/ is imported, so that all of them leave marks."""

import os

if "TESTS_COVERAGE_MARKS" in os.environ:
    from tests.coverage_marks import load_with_marks

    load_with_marks()
