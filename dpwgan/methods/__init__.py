"""The methods by name: each plans from public facts, fits under the ledger, and samples without rows.

Start with base.py, then dp_wgan.py, the default. TensorFlow takes seconds to import, which a plan must not pay for: it
is imported where a fit begins.
"""
