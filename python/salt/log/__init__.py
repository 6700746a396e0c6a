"""Modules log through the standard library's logging; its records reach the minion's log."""
import logging

LOG_LEVELS = {"all": 0, "garbage": 1, "trace": 5, "debug": 10, "profile": 15, "info": 20,
              "warning": 30, "error": 40, "critical": 50, "quiet": 1000}


def getLogger(name):
    return logging.getLogger(name)
