"""Tests of app/redis."""
