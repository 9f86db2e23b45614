"""Mechanisms that add noise or select at random, each with the theorem that it rests on."""
