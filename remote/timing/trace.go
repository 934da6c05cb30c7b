package timing

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

const (
	// MaxSteps is how many steps a job may profile.
	MaxSteps = 10_000
	// MaxTrace bounds an encoded trace in bytes.
	MaxTrace = 16 << 20
	// maxRuns is how many runs of kernels, and how many rounds, the traces of all roles of a job may have together, and leastRuns how many runs of kernels
	// one role may have anyway.
	maxRuns, leastRuns = 1 << 20, 1 << 12
)

// RoundsOf is how many rounds one role of a job may record, given the number of its roles.
func RoundsOf(roles int) int { return min(MaxSteps, maxRuns/max(1, roles)) }

// RunsOf is how many runs of kernels one role of a job may record, given the number of its roles.
func RunsOf(roles int) int { return min(1<<18, max(leastRuns, maxRuns/max(1, roles))) }

// Trace returns the rounds that were to be profiled, and with them at most so many runs of kernels.
func (r *Recorder) Trace(runs []executor.KernelRun, lost, most int) *job.Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := &job.Trace{Clock: r.epoch.UnixNano(), Phases: r.phases, Lost: uint64(lost)}
	for i := range r.profiled {
		m.Rounds = append(m.Rounds, traced(&r.profiled[i], len(r.phases)))
	}
	index := map[kernel]uint32{}
	if len(runs) > most {
		m.Lost += uint64(len(runs) - most)
	}
	runs = slices.Clone(runs[:min(len(runs), most)])
	slices.SortStableFunc(runs, func(a, b executor.KernelRun) int { return a.Start.Compare(b.Start) })
	var free lanes
	for _, run := range runs {
		k := kernel{run.Name, run.Line, run.Flops, run.Bytes}
		at, ok := index[k]
		if !ok {
			at = uint32(len(m.Kernels))
			index[k] = at
			m.Kernels = append(m.Kernels, &job.TracedKernel{Name: k.name, Line: k.line, Flops: k.flops, Bytes: k.bytes})
		}
		m.RunKernel = append(m.RunKernel, at)
		m.RunWorker = append(m.RunWorker, uint32(free.take(run)))
		m.RunRound = append(m.RunRound, run.Round)
		m.RunStart = append(m.RunStart, int64(run.Start.Sub(r.epoch)))
		m.RunTook = append(m.RunTook, int64(run.Took))
	}
	return m
}

// lanes are when each lane of a process is free again. Blocks of a pserver run at the same time, each on what it takes for its first worker.
type lanes []time.Time

// take returns a lane for a run: that of its worker, or the next that is free.
func (l *lanes) take(run executor.KernelRun) int {
	lane := run.Worker
	for lane < len(*l) && (*l)[lane].After(run.Start) {
		lane++
	}
	for lane >= len(*l) {
		*l = append(*l, time.Time{})
	}
	(*l)[lane] = run.Start.Add(run.Took)
	return lane
}

// A kernel is what a TracedKernel says.
type kernel struct {
	name, line   string
	flops, bytes int64
}

// decode reads a trace that has come from another process, and refuses one that no Recorder makes.
func decode(b []byte) (*job.Trace, error) {
	m := &job.Trace{}
	if len(b) > MaxTrace {
		return nil, fault.E(fault.TooLarge, fault.Gotf("a trace of %d bytes", len(b)), fault.Wantf("at most %d", MaxTrace))
	}
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fault.Wrap(fault.Corrupt, "trace", err)
	}
	n := len(m.RunKernel)
	ok := len(m.Phases) <= maxPhases && len(m.RunWorker) == n && len(m.RunRound) == n && len(m.RunStart) == n && len(m.RunTook) == n
	for _, r := range m.Rounds {
		ok = ok && r != nil && len(r.Took) == len(m.Phases)
	}
	for i := range n {
		ok = ok && int(m.RunKernel[i]) < len(m.Kernels) && m.Kernels[m.RunKernel[i]] != nil && m.RunTook[i] >= 0 && m.RunWorker[i] < maxWorkers
	}
	for _, r := range m.Rounds {
		for i := 0; ok && i < len(r.Took); i++ {
			ok = r.Took[i] >= 0
		}
	}
	if !ok {
		return nil, fault.E(fault.Corrupt, fault.Got("a trace whose parts do not fit together"), fault.Wantf("rounds of %d phases, and runs of its kernels",
			len(m.Phases)))
	}
	return m, nil
}

// maxWorkers bounds the lanes of a process.
const maxWorkers = 1 << 12
