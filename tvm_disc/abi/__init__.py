"""Conventions between compiled programs and their callers; imports neither TVM nor the compiler."""
