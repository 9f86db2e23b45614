"""Published methods to compare with, whole: nothing but the registry and their own tests imports them."""
