//! The kernel side: cgroups, statistics, volumes, CNI configuration.
