"""Pictures that are no records, as `sample` makes them."""

from dpdistill.api.pictures import MORE_IMAGES, PICTURES, check_generator, generate, kinds_of, make_pictures

__all__ = ["MORE_IMAGES", "PICTURES", "check_generator", "generate", "kinds_of", "make_pictures"]
