# SPDX-License-Identifier: Apache-2.0
"""The checker of annotations under test: as PEP 484 has it, a whole number will do where a float is wanted."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
