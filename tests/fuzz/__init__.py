"""Random modules of the whole operator table against NumPy: campaigns, findings, mutants."""
