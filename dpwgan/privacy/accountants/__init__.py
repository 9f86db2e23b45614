"""How the losses of many releases add up: four accountants, each with its proof or its source."""
