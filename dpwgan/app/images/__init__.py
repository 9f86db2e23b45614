"""The command for tables of images: makes them from files and shows them as sheets of pictures."""
