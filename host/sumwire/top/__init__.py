# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`sumwire top`: shows workers, switches and links while a job runs, from the metrics that they serve."""
