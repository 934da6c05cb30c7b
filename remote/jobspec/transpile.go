package jobspec

import (
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/transpiler"
)

// Transpiler returns what a job says about its role programs. The listener makes the programs of a job by it, and edl transpile shows them.
func Transpiler(spec *job.JobSpec) transpiler.Config {
	mode := transpiler.Sync
	if spec.Mode == job.Mode_ASYNC {
		mode = transpiler.Async
	}
	return transpiler.Config{Trainers: int(spec.Trainers), PServers: int(spec.Pservers), Mode: mode, MinBlockSize: spec.MinBlockSize,
		NoSlice: spec.NoSlice, SplitMethod: spec.SplitMethod, Fetch: spec.Fetch, MergeHosts: spec.MergeHosts, Backups: Backups(spec) > 0, Devices: spec.Devices > 1,
		CompressGradients: spec.CompressGradients, CompressParameters: spec.CompressParameters,
		KeepReceived: spec.PullEvery > 1 && !spec.Fed}
}
