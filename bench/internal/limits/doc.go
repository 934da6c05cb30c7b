// Package limits measures what this machine can do at most: multiply and add numbers in registers, and read memory. What a workload
// reaches is given as a share of these, because a ratio to another program alone does not tell what is left.
package limits
