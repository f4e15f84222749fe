"""Under the LGPL: as Python files, so that anybody can put another version in their place."""

module_collection_mode = "py"
