"""What is asked, and of which columns: rounds of marginals, and questions that marginals of groups leave open.

Start with queries.py, the rounds, and questions.py, what the others have in common.
"""
