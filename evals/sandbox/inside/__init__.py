"""What runs within a sandbox: the trusted part beside the program. Standard library only, any Python from 3.9 on."""
