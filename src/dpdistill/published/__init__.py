"""Recipes by name: own ones, and every row of the papers' tables, as data; and recipes in a person's file."""

from dpdistill.published.rows import Published, all_published, is_file, notes, published, read_recipe, stated_in

__all__ = ["Published", "all_published", "is_file", "notes", "published", "read_recipe", "stated_in"]
