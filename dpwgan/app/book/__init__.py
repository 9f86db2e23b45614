"""The command `dpwgan book`, and the book itself: all releases of one private table, and their limit."""
