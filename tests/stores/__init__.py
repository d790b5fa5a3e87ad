"""Tests of app/stores."""
