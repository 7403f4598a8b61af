"""Leadership of jobs: elections, handover, leader discovery, drain."""
