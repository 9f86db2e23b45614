"""Tables of images: their grid, a basis of low frequencies, moments in it, and samplers of what was fitted there."""
