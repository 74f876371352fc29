"""Recipes: the fields of every method, kernel and feature map, with their allowed values, without computing code."""
