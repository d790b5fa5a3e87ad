"""Tests of app/validation."""
