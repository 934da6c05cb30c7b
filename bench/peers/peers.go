// Package peers carries the scripts that measure the workloads of package bench in PyTorch.
package peers

import _ "embed" // of the script

// Measure is measure.py. It is called as bench/cmd/measure is, by a Python that has PyTorch, and prints the same.
//
//go:embed measure.py
var Measure []byte
