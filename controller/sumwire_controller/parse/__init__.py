# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""From YAML text to the model: shape and types, with all problems in one error."""
