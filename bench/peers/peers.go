// Package peers carries the scripts that measure the workloads of package bench in PyTorch.
package peers

import _ "embed" // of the scripts

//go:embed measure.py
var measure []byte

//go:embed ddp.py
var ddp []byte

// Names of the scripts.
const (
	Measure = "measure.py" // is called as bench/cmd/measure is, and prints the same
	DDP     = "ddp.py"     // trains on several processes; it imports measure.py
)

// Scripts are the scripts by their names. They stand in one directory and are run by a Python that has PyTorch.
var Scripts = map[string][]byte{Measure: measure, DDP: ddp}
