# SPDX-License-Identifier: BSD-2-Clause
"""What bench/run and bench/instructions share."""
