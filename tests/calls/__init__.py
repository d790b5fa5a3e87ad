"""Tests of app/calls."""
