"""python-stdnum: a table of account numbers, and sources, as its licence wants them replaceable."""

from PyInstaller.utils.hooks import collect_data_files

datas = collect_data_files("stdnum", includes=["iban.dat"])
module_collection_mode = "py"
