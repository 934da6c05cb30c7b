// Package bench holds the models that EDL is measured by, beside PyTorch, gorgonia and OpenBLAS.
//
// A Workload is a model with its optimizer, batches that are ready to be fed, and an account of the work that one step cannot
// avoid. Training runs its steps the way a user who wants no allocation would: a prepared program, fed the next batch. The
// scripts in bench/peers define the same workloads for PyTorch; a change on one side belongs on the other.
//
// Three things measure a workload. `go test -bench . ./bench` is for daily work on a kernel. bench/cmd/train is one
// measurement in a process of its own, so that its peak memory is its own too. `make bench-peers` (bench/cmd/peers) takes turns between
// such processes and those of the peers, and writes the tables of docs/performance.md.
package bench
