// Package remote runs programs on many processes and machines: it has the executor that a user swaps for the local one.
//
//	exe := executor.New()                              // one machine
//	exe, err := remote.NewExecutor(address, spec)      // a cluster, with the same methods
//
// An Executor sends the program and a JobSpec to a listener (package listen, the command edl listen), which transpiles it and
// starts the roles. With an empty address it starts a listener of its own, inside of this process, whose roles are goroutines, or
// whatever WithLauncher says: the command edl run --remote gives it child processes and an etcd server.
//
// The rooms below: wire moves bytes, role runs one process of a job, which is a coordinator, a pserver or a trainer; cluster is where they find each
// other; launch starts them; listen runs whole jobs.
package remote
