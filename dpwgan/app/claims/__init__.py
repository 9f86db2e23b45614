"""A claim in the hands of others: as text, checked, exported, signed. The document itself is `dpwgan.app.claim`."""
