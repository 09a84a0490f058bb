"""How much palpate takes: broken files for every reader, kills, full disks. `python -m reliability`."""
