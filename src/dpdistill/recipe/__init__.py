"""Recipes: the fields of every method, kernel and feature map, and what they may hold, without what computes."""
