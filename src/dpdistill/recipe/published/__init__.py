"""Recipes by name as data: our own ones, every row of the papers' tables, and recipes in a user's file."""

from dpdistill.recipe.published.rows import Published, all_published, full_name, is_file, notes, published, read_recipe

__all__ = ["Published", "all_published", "full_name", "is_file", "notes", "published", "read_recipe"]
