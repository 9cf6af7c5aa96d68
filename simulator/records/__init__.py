"""What studies and runs leave behind: layout, record types and a read-only reader."""
