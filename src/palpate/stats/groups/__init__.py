"""Statistics of groups of cases.

balance   how differently two sets of cases are made up: standardised differences
"""
