"""Cron rules: their fields, their days, and the schedule that is made of them."""
