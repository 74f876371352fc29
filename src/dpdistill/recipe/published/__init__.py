"""Recipes by name: own ones, and every row of the papers' tables, as data; and recipes in a person's file."""

from dpdistill.recipe.published.rows import Published, all_published, full_name, is_file, notes, published, read_recipe

__all__ = ["Published", "all_published", "full_name", "is_file", "notes", "published", "read_recipe"]
