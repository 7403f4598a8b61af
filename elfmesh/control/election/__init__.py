"""Who leads which job: elections, handing over, discovery."""
