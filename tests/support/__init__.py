# SPDX-License-Identifier: Apache-2.0
"""What several tests share, and the checker of shapes: as PEP 484 has it, an int will do where a float is wanted."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
