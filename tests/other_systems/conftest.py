"""Nothing of POSIX is left where this is imported: never by the tests themselves."""

collect_ignore = ["strict"]
