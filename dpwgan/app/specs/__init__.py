"""The command for specs: drafts them from public dictionaries, and lists all that is wrong with them."""
