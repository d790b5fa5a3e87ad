"""Tests of app/coding_agents."""
