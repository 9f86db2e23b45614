"""The methods by name: each plans from public facts, fits under the ledger, and samples without rows.

Start with base.py, then dp_wgan.py, the default.
"""
