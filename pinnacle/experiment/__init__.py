"""Runs, seeds, tables and figures; the one place where names become classes."""

from .methods import (
    Method as Method,
    MethodSettings as MethodSettings,
    make_method as make_method,
    method_names as method_names,
)
