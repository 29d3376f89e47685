"""What `GradientMonitor` is made of: a recorder on the device, a reader on the host, a judge, a table, a log."""
