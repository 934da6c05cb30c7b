package edlcmd

import "golang.org/x/sys/unix"

// processLimits are those that large jobs meet first: a role has a connection to each other role, and each role is a process of some threads.
func processLimits() (list []processLimit) {
	for _, of := range []struct {
		number int
		limit  processLimit
	}{
		{unix.RLIMIT_NOFILE, processLimit{about: "open files", of: "files and connections of a process", little: 4096, do: "raise it: \"ulimit -n 65536\", or LimitNOFILE= of a unit of systemd"}},
		{unix.RLIMIT_NPROC, processLimit{about: "processes", of: "processes and threads of this user", little: 4096, do: "raise it: \"ulimit -u 65536\", or LimitNPROC= of a unit of systemd"}},
	} {
		var has unix.Rlimit
		if unix.Getrlimit(of.number, &has) != nil {
			continue
		}
		of.limit.most = has.Max // which the runtime of Go raises its own to
		if of.number == unix.RLIMIT_NPROC {
			of.limit.most = has.Cur
		}
		of.limit.unlimited = of.limit.most == unix.RLIM_INFINITY
		list = append(list, of.limit)
	}
	return list
}
