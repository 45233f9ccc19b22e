"""Passes over loops: their form, and rows that are collected in place."""
