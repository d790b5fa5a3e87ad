"""Tests of app/runtime."""
