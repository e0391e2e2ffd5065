"""What users need to test a loop: strategies, naive second models, machines, checks and faults."""
