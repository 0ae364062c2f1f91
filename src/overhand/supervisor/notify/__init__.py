"""Notifications: what is worth a person's attention, and the ways to send it."""
