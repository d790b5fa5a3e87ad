"""Examines a configuration and everything that it names, for `parley doctor`: what works, what does not, and what to
do."""

from app.doctor.examination import Examination, examine_server, examine_settings
from app.doctor.findings import Finding, Status

__all__ = ["Examination", "Finding", "Status", "examine_server", "examine_settings"]
