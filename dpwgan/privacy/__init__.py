"""What a release may give away: budget, terms, events, accountants, ledger, mechanisms that draw noise, streams.

Start with ledger.py. Only this room draws noise that protects rows, and it knows neither columns nor methods.
"""
