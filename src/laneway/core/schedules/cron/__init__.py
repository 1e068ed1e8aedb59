"""Cron rules: their fields, their days, and the schedule."""
