# SPDX-License-Identifier: Apache-2.0
"""Where the data of experiments come from: public files with their checksums, how to load them, splits and scaling.

A new data set is an entry in :data:`fpovi.datasets.catalogue.DATASETS` and a loader that asks
:func:`fpovi.datasets.folder.data_file` for its files.
"""
